# Installs Postgres PG_MAJOR with contrib (part of the server's package), pgvector and the locale en_US.UTF-8. Runs
# during the image build.
set -eu
export DEBIAN_FRONTEND=noninteractive
steps=$(dirname "$0")

# By default, the package creates a database cluster when it is installed. The data belong on a volume.
mkdir -p /etc/postgresql-common
echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.conf

if [ "$PGDG" = yes ]; then
  # postgresql-common contains the repository's signing key.
  sh "$steps/install.sh" ca-certificates postgresql-common
  cat > /etc/apt/sources.list.d/pgdg.sources <<END
Types: deb
URIs: https://apt.postgresql.org/pub/repos/apt
Suites: $(. /etc/os-release && echo "$VERSION_CODENAME")-pgdg
Components: main
Signed-By: /usr/share/postgresql-common/pgdg/apt.postgresql.org.asc
END
fi
# Installs small programs explicitly. Otherwise a dependency would install systemd in their place.
sh "$steps/install.sh" locales "postgresql-$PG_MAJOR" "postgresql-$PG_MAJOR-pgvector" systemd-

# C.UTF-8 is part of the C library. Users may create databases with en_US.UTF-8, which most systems have.
localedef -i en_US -f UTF-8 en_US.UTF-8
rm -rf /usr/share/i18n/*

# Allows a user who may create objects in a database to install pgvector there, as for most of contrib, because users
# are not superusers here. pgvector accesses nothing outside the database, as the manual requires for a trusted
# extension.
control=/usr/share/postgresql/$PG_MAJOR/extension/vector.control
grep -q '^trusted' "$control" || echo 'trusted = true' >> "$control"

# Removes a key pair that a dependency creates for tests of TLS. A private key in an image is not secret.
rm -f /etc/ssl/private/ssl-cert-snakeoil.key /etc/ssl/certs/ssl-cert-snakeoil.pem
