/**
 * Postgres's configuration, from a size and a version; pure. Settings come in three layers: what we derive from the
 * size's resources, over that the size's own settings, over both what is fixed, because durability, authentication or
 * another part of Espalier depends on it. A size's setting that is not for sizes is left out, never obeyed.
 *
 * The settings that only the running pod knows (its address; where the certificate is mounted) are not here: see
 * `postgresCommand` and instance/tls.ts.
 */
import { createHash } from 'node:crypto'
import { isSettingForSizes, type PgVersion, type SizeShape } from '../../crds/index.ts'
import type { ConfigurationFile } from '../../instance/configuration.ts'
import { renderSettings } from '../../instance/settings.ts'
import { dataDirectory } from '../../instance/volume.ts'
import { quantityToBytes, quantityToNumber } from '../../values/quantity.ts'

/** The common name of the operator's client certificate, and the only way into the superuser. */
export const operatorCommonName = 'espalier-operator'
export const superuser = 'postgres'
/** The role that copies an instance (backups, later replicas), and the common name by which alone it logs in. */
export const replicationRole = 'espalier_replication'
export const replicationCommonName = 'espalier-replication'
/** The role by which the agent of the pod reads what monitoring shows, and the common name by which alone it logs in: of one instance. */
export const monitorRole = 'espalier_monitor'
export const monitorCommonName = (id: string): string => `espalier-monitor-${id}`
/** The group that users' own roles join to read what `app_read_only` reads. Nobody logs in as it. */
export const readerRole = 'espalier_read_only'
/** The login of the service `rest`, which becomes the role of each request. */
export const authenticatorRole = 'authenticator'
/** The login of the service `mcp` for its own database, and that database, with conversations and the state of its OAuth server. */
export const mcpStateRole = 'mcp_state'
export const mcpStateDatabase = 'espalier'
/** What Postgres gathers of the statements it ran; loaded where the image has it. */
export const statisticsLibrary = 'pg_stat_statements'
export const preloadedLibraries = [statisticsLibrary]
/** In postgresql.conf: which version of the three files this is, so that Postgres itself tells which one is in force. */
const digestSetting = 'espalier.configuration'
/**
 * The platform's own database, where it does what is not inside the application's. It is there from initdb on, and no user
 * can drop, change or enter it.
 */
export const maintenanceDatabase = 'template1'
/** Where Postgres listens, on the pod's own address. */
export const postgresPort = 5432

/**
 * Connections held back for the operator and backups: two looks at once, a change of roles, and room for a person.
 * They are superuser_reserved_connections, so that what is left for everyone else is exactly the size's `connections`.
 */
const platformReserve = 5

/**
 * Places for connections that have not logged in: before that a reserve is open to anybody, so who opens connections and
 * says nothing would shut out the operator from a full database. Two gateways let in so many at once (gateway/logins.ts).
 */
const loginReserve = 24

/** For the agent of the pod: a database that is full of connections is to be seen as such. */
const monitorReserve = 1

/** max_connections of a size: connections for application roles, and what is held back. */
export const maxConnections = (shape: Pick<SizeShape, 'connections'>): number =>
  shape.connections + monitorReserve + platformReserve + loginReserve

const MiB = 2 ** 20
const GiB = 2 ** 30
const clamp = (value: number, low: number, high: number): number => Math.min(Math.max(value, low), high)
const kilobytes = (bytes: number): string => `${Math.floor(bytes / 1024)}kB`

/**
 * What follows from the size's resources. Shared memory comes from the request, which is assured; what is only a hint or
 * is given back comes from the limit. A query may hold several pieces of work_mem, hence the divisor.
 */
function derivedSettings(shape: SizeShape): Record<string, string> {
  const assured = quantityToBytes(shape.memoryRequest)
  const memory = Math.max(assured, quantityToBytes(shape.memoryLimit))
  const storage = quantityToBytes(shape.storageSize)
  const cores = Math.max(1, Math.ceil(quantityToNumber(shape.cpuLimit)))
  const sharedBuffers = clamp(assured / 4, 16 * MiB, 64 * GiB)
  const maxWalSize = clamp(storage / 10, 64 * MiB, 8 * GiB)
  return {
    shared_buffers: kilobytes(sharedBuffers),
    effective_cache_size: kilobytes(Math.max(memory * 0.7, sharedBuffers)),
    work_mem: kilobytes(clamp((memory - sharedBuffers) / (shape.connections * 3), 1 * MiB, 64 * MiB)),
    maintenance_work_mem: kilobytes(clamp(memory / 16, 16 * MiB, 2 * GiB)),
    // WAL stands on the same volume as the data: it must not fill a small one.
    max_wal_size: `${Math.floor(maxWalSize / MiB)}MB`,
    min_wal_size: `${Math.floor(clamp(maxWalSize / 4, 32 * MiB, 1 * GiB) / MiB)}MB`,
    // Temporary files too; the limit is per process.
    temp_file_limit: kilobytes(quantityToBytes(shape.temporaryDataSize)),
    max_worker_processes: String(Math.max(8, cores + 4)),
    max_parallel_workers: String(cores),
    max_parallel_workers_per_gather: String(Math.min(cores, 2)),
    // A container with a limit on huge pages dies of SIGBUS where "try" seemed to succeed.
    huge_pages: 'off',
    random_page_cost: '1.1',
    log_lock_waits: 'on',
    // Clients come through a proxy: find out about those that are gone.
    tcp_keepalives_idle: '60',
    tcp_keepalives_interval: '10',
    tcp_keepalives_count: '6',
    // Before it recovers, Postgres brings every file to the disk: one by one that is a flush of the disk for each of a thousand. An
    // error of either is logged, and Postgres goes on.
    recovery_init_sync_method: 'syncfs',
    // What initdb writes into the file that ours replaces.
    datestyle: 'iso, mdy',
    timezone: 'UTC',
    lc_monetary: 'C',
    lc_numeric: 'C',
    lc_time: 'C',
    default_text_search_config: 'pg_catalog.english',
  }
}

/**
 * What nothing overrides.
 *
 * - Logging goes to standard error, where the cluster collects it: no collector, no log files on the user's volume. The
 *   JSON log would need both. The prefix begins with what the server itself writes (time in UTC, process and line number,
 *   SQLSTATE), so that no name of a user's can pass for a level: the level is the first word after the prefix. The API
 *   reads it (api/logs/entries.ts).
 * - wal_level is `replica`, which base backups need. `logical` would cost WAL and gain nothing: no user's role has
 *   REPLICATION, so nobody could read it.
 * - archive_mode is on, with a command that says "done": switching it on later would take a restart, and a command that
 *   failed would keep every piece of WAL. The archive replaces the command by a reload.
 * - summarize_wal (from 17 on) is what incremental backups are made from: what was not summarised while it was written
 *   cannot be made good.
 * - max_slot_wal_keep_size: WAL stands on the same volume as the data. A copy that is never fetched loses its slot rather
 *   than fill it.
 * - pg_stat_statements records statements on data only: what makes a role holds its password.
 * - Addresses and sockets: none, but the one on the command line.
 */
function fixedSettings(shape: SizeShape, version: PgVersion): Record<string, string> {
  const storage = quantityToBytes(shape.storageSize)
  return {
    listen_addresses: '',
    port: String(postgresPort),
    unix_socket_directories: '',
    max_connections: String(maxConnections(shape)),
    superuser_reserved_connections: String(platformReserve + loginReserve),
    reserved_connections: String(monitorReserve),
    // The gateway counts on it: after this and a little more, what is open has logged in.
    authentication_timeout: '10s',
    password_encryption: 'scram-sha-256',
    ssl: 'on',
    ssl_min_protocol_version: 'TLSv1.2',
    fsync: 'on',
    full_page_writes: 'on',
    synchronous_commit: 'on',
    wal_level: 'replica',
    archive_mode: 'on',
    archive_command: 'true',
    archive_library: '',
    archive_timeout: '0',
    max_slot_wal_keep_size: `${Math.floor(clamp(storage / 5, 128 * MiB, 64 * GiB) / MiB)}MB`,
    [`${statisticsLibrary}.track`]: 'top',
    [`${statisticsLibrary}.track_utility`]: 'off',
    dynamic_shared_memory_type: 'posix',
    log_destination: 'stderr',
    logging_collector: 'off',
    log_line_prefix: '%m [%p:%l] %e %q[user=%u db=%d client=%h] ',
    log_timezone: 'UTC',
    lc_messages: 'C',
    ...(Number(version) >= 17 ? { allow_alter_system: 'off', summarize_wal: 'on', wal_summary_keep_time: '10d' } : {}),
  }
}

/** A size may set another limit, not none: temporary files would fill the volume. */
const isUnbounded = (limit: string): boolean => /^\s*(-|$)/.test(limit)

/** Every setting of postgresql.conf for a size, as Postgres takes it. */
export function postgresSettings(shape: SizeShape, version: PgVersion): Record<string, string> {
  const own = Object.entries(shape.postgresSettings).filter(
    ([name, value]) => isSettingForSizes(name) && !(name === 'temp_file_limit' && isUnbounded(value)),
  )
  return { ...derivedSettings(shape), ...Object.fromEntries(own), ...fixedSettings(shape, version) }
}

/**
 * Who may log in. The superuser only by the operator's certificate, from anywhere; for replication one role, by a
 * certificate of its own, and into no database; for monitoring one, by a certificate that is this instance's, and into the
 * platform's database alone; every other role by password over TLS; nobody without TLS. The first line that fits decides, so
 * none can be got around.
 */
const pgHba = `# TYPE     DATABASE     USER                  ADDRESS  METHOD
hostnossl  all          all                   all      reject
hostnossl  replication  all                   all      reject
hostssl    all          ${superuser}              all      cert map=espalier
hostssl    replication  ${replicationRole}  all      cert map=espalier_replication
hostssl    replication  all                   all      reject
hostssl    all          ${replicationRole}  all      reject
hostssl    ${maintenanceDatabase}    ${monitorRole}      all      cert map=espalier_monitor
hostssl    all          ${monitorRole}      all      reject
hostssl    all          all                   all      scram-sha-256
`

const pgIdent = (id: string): string => `# MAP                 SYSTEM-USERNAME       PG-USERNAME
espalier              ${operatorCommonName}     ${superuser}
espalier_replication  ${replicationCommonName}  ${replicationRole}
espalier_monitor      ${monitorCommonName(id)}  ${monitorRole}
`

/** Which version of the files these are; by it the operator knows what is in force. */
const digestOfFiles = (files: Readonly<Record<ConfigurationFile, string>>): string =>
  createHash('sha256')
    .update(JSON.stringify(Object.entries(files).sort()))
    .digest('hex')
    .slice(0, 16)

type RenderedConfiguration = { files: Record<ConfigurationFile, string>; digest: string }

/** The three files, and the digest that the first of them carries. `id`: whose instance it is. */
export function renderWithDigest(shape: SizeShape, version: PgVersion, id: string): RenderedConfiguration {
  const heading = '# Written by the operator; changes made here are lost.\n'
  const files = {
    'postgresql.conf': heading + renderSettings(postgresSettings(shape, version)),
    'pg_hba.conf': heading + pgHba,
    'pg_ident.conf': heading + pgIdent(id),
  }
  const digest = digestOfFiles(files)
  const marked = files['postgresql.conf'] + renderSettings({ [digestSetting]: digest })
  return { files: { ...files, 'postgresql.conf': marked }, digest }
}

/** The three files, for InstanceConfiguration.files. */
export const renderConfiguration = (
  shape: SizeShape,
  version: PgVersion,
  id: string,
): Record<ConfigurationFile, string> => renderWithDigest(shape, version, id).files

/**
 * The command of the Postgres container, for a volume mounted at this path. `POD_IP` must be in its environment (the
 * downward API); settings on the command line win over every file.
 */
export const postgresCommand = (volume: string): string[] => [
  'postgres',
  '-D',
  `${volume}/${dataDirectory}`,
  '-c',
  'listen_addresses=$(POD_IP)',
]
