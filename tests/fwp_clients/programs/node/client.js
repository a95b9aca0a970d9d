// The client `faktory-worker` from npm, driven from the command line; clients.py two folders above says how.
const { Client, Worker } = require("faktory-worker");

const say = (words) => console.log(JSON.stringify(words));

async function withClient(url, act) {
  // The address alone does not make this client speak TLS.
  const client = new Client({ url, tlsOptions: url.startsWith("tcp+tls:") ? {} : undefined });
  try {
    await act(client);
  } finally {
    await client.close();
  }
}

const verbs = {
  push: (url, job) =>
    withClient(url, async (client) => say({ pushed: (await client.push(job)) === job.jid })),
  bulk: (url, jobs) =>
    withClient(url, async (client) => {
      const refused = await client.pushBulk(jobs);
      const reasons = Object.entries(refused).map(([jid, { reason }]) => [jid, reason]);
      say({ refused: Object.fromEntries(reasons) });
    }),
  info: (url) => withClient(url, async (client) => say({ info: await client.info() })),
  mutate: (url, { cmd, target, filter }) =>
    withClient(url, async (client) => {
      const mutation = client[target];
      if (filter.jids) mutation.withJids(filter.jids);
      if (filter.regexp) mutation.matching(filter.regexp);
      if (filter.jobtype) mutation.ofType(filter.jobtype);
      say({ mutated: (await mutation[cmd]()) === "OK" });
    }),
  async work(url, { queue, wid }) {
    const worker = new Worker({ url, wid, queues: [queue], concurrency: 1, beatInterval: 0.3 });
    worker.register("echo", async (...args) => say({ ran: args }));
    worker.register("fail", async (...args) => {
      say({ failing: args });
      throw Object.assign(new Error("boom"), { code: "ValueError" });
    });
    const beat = worker.client.beat.bind(worker.client);
    worker.client.beat = async () => {
      const state = await beat();
      if (state === "quiet" && !worker.quieted) say({ quiet: true });
      return state;
    };
    worker.on("fail", () => {});
    await worker.work();
  },
};

verbs[process.argv[2]](process.argv[3], JSON.parse(process.argv[4]));
