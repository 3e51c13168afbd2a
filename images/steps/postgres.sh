# Installs Postgres PG_MAJOR with contrib (part of the server's package), pgvector and the locale en_US.UTF-8. Runs while
# the image is built.
set -eu
export DEBIAN_FRONTEND=noninteractive
steps=$(dirname "$0")

# The package makes a database cluster of its own as it is installed; the data belong on a volume.
mkdir -p /etc/postgresql-common
echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.conf

if [ "$PGDG" = yes ]; then
  # postgresql-common brings the repository's signing key.
  sh "$steps/install.sh" ca-certificates postgresql-common
  cat > /etc/apt/sources.list.d/pgdg.sources <<END
Types: deb
URIs: https://apt.postgresql.org/pub/repos/apt
Suites: $(. /etc/os-release && echo "$VERSION_CODENAME")-pgdg
Components: main
Signed-By: /usr/share/postgresql-common/pgdg/apt.postgresql.org.asc
END
fi
# A dependency would rather have systemd than the small programs that do as well.
sh "$steps/install.sh" locales "postgresql-$PG_MAJOR" "postgresql-$PG_MAJOR-pgvector" systemd-

# C.UTF-8 comes with the C library. A user may make a database in en_US.UTF-8, as most systems have it.
localedef -i en_US -f UTF-8 en_US.UTF-8
rm -rf /usr/share/i18n/*

# Whoever may create in a database may install it there, as they may most of contrib: a user is no superuser here. (It
# reaches nothing outside the database, which is what the manual asks of a trusted extension.)
control=/usr/share/postgresql/$PG_MAJOR/extension/vector.control
grep -q '^trusted' "$control" || echo 'trusted = true' >> "$control"

# A key pair that a dependency makes for trying TLS out: a private key in an image is nobody's.
rm -f /etc/ssl/private/ssl-cert-snakeoil.key /etc/ssl/certs/ssl-cert-snakeoil.pem
