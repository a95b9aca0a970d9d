#!/bin/sh
# Makes the certificates of the TLS tests again, good from 2020 to 2120. Nothing but these tests trusts them.
set -e
cd "$(dirname "$0")"
made="$PWD"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
: > index
cat > config <<'END'
[ca]
default_ca = tests
[tests]
database = index
new_certs_dir = .
rand_serial = yes
default_md = sha256
policy = any
[any]
commonName = supplied
[root]
basicConstraints = critical, CA:true
keyUsage = critical, keyCertSign
subjectKeyIdentifier = hash
[server]
subjectAltName = DNS:localhost, IP:127.0.0.1
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
[client]
extendedKeyUsage = clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
END
certify() { # name, further options
    name=$1; shift
    openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$name.key"
    openssl req -new -key "$name.key" -subj "/CN=$name" -out "$name.csr"
    openssl ca -batch -notext -config config -startdate 20200101000000Z -enddate 21200101000000Z \
        -in "$name.csr" -out "$name.pem" -extensions "$name" "$@"
}
certify root -selfsign -keyfile root.key
certify server -cert root.pem -keyfile root.key
certify client -cert root.pem -keyfile root.key
openssl pkey -in client.key -aes256 -passout pass:secret -out locked.key
cp root.pem server.pem server.key client.pem client.key locked.key "$made"
