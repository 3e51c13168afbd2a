/**
 * Postgres's configuration for a size and a version. Pure. Settings have three layers. The lowest is derived from the
 * size's resources. The size's own settings override it. Fixed settings override both: durability, authentication or
 * another part of Espalier depends on them. A setting that a size may not set is ignored.
 *
 * Settings that only the running pod knows (its address, the mount of its certificate) are in `postgresCommand` and
 * instance/tls.ts.
 */
import { createHash } from 'node:crypto'
import { isSettingForSizes, type PgVersion, type SizeShape } from '../../crds/index.ts'
import type { ConfigurationFile } from '../../instance/configuration.ts'
import { renderSettings } from '../../instance/settings.ts'
import { dataDirectory } from '../../instance/volume.ts'
import { quantityToBytes, quantityToNumber } from '../../values/quantity.ts'

/** The common name of the operator's client certificate. Only this certificate permits a login as superuser. */
export const operatorCommonName = 'espalier-operator'
export const superuser = 'postgres'
/** The role that copies an instance (backups, later replicas), and the common name of its certificate. */
export const replicationRole = 'espalier_replication'
export const replicationCommonName = 'espalier-replication'
/**
 * The role with which the pod's agent reads monitoring views, and the common name of its certificate. The certificate
 * is for one instance.
 */
export const monitorRole = 'espalier_monitor'
export const monitorCommonName = (id: string): string => `espalier-monitor-${id}`
/**
 * The common name of the certificate with which the pod's agent copies the instance for the archive. The certificate is
 * for one instance, and valid only from its own address.
 */
export const archiverCommonName = (id: string): string => `espalier-archiver-${id}`
/** The group that users' own roles join to read what `app_read_only` reads. It cannot log in. */
export const readerRole = 'espalier_read_only'
/** The login role of the service `rest`, which switches to the role of each request. */
export const authenticatorRole = 'authenticator'
/**
 * The service `mcp` logs in to its own database with this role. The database has conversations and the state of the
 * service's OAuth server.
 */
export const mcpStateRole = 'mcp_state'
export const mcpStateDatabase = 'espalier'
/** The library that collects statistics of statements; loaded if the image has it. */
export const statisticsLibrary = 'pg_stat_statements'
export const preloadedLibraries = [statisticsLibrary]
/** A setting in postgresql.conf: the version of the three files. With it Postgres reports which version is applied. */
const digestSetting = 'espalier.configuration'
/**
 * The platform's own database, for work outside the application database. initdb creates it. No user can drop it,
 * change it or connect to it.
 */
export const maintenanceDatabase = 'template1'
/** The port on the pod's own address. */
export const postgresPort = 5432

/**
 * Connections reserved for the operator and backups: two concurrent probes, a change of roles, and one for a person.
 * They are superuser_reserved_connections, so that exactly the size's `connections` remain for all other roles.
 */
const platformReserve = 5

/**
 * Slots for connections that have not logged in yet. Before login, any client can use a reserved connection. So a
 * client that opens silent connections could lock out the operator from a full database. Two gateways together open at
 * most this many (gateway/logins.ts).
 */
const loginReserve = 24

/** For the pod's agent, so that monitoring works if all other connections are used. */
const monitorReserve = 1

/** max_connections of a size: connections for application roles, and the reserved ones. */
export const maxConnections = (shape: Pick<SizeShape, 'connections'>): number =>
  shape.connections + monitorReserve + platformReserve + loginReserve

const MiB = 2 ** 20
const GiB = 2 ** 30
const clamp = (value: number, low: number, high: number): number => Math.min(Math.max(value, low), high)
const kilobytes = (bytes: number): string => `${Math.floor(bytes / 1024)}kB`

/**
 * Settings derived from the size's resources. Shared memory is derived from the memory request, which is guaranteed.
 * Planner hints, and memory that Postgres releases again, are derived from the limit. One query may use several times
 * work_mem, hence the divisor.
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
    // WAL is on the same volume as the data, and must not fill a small volume.
    max_wal_size: `${Math.floor(maxWalSize / MiB)}MB`,
    min_wal_size: `${Math.floor(clamp(maxWalSize / 4, 32 * MiB, 1 * GiB) / MiB)}MB`,
    // Temporary files must not fill the volume either. The limit is per process.
    temp_file_limit: kilobytes(quantityToBytes(shape.temporaryDataSize)),
    max_worker_processes: String(Math.max(8, cores + 4)),
    max_parallel_workers: String(cores),
    max_parallel_workers_per_gather: String(Math.min(cores, 2)),
    // With "try", Postgres is killed by SIGBUS in a container with a limit on huge pages.
    huge_pages: 'off',
    random_page_cost: '1.1',
    log_lock_waits: 'on',
    // Clients connect through a proxy. Postgres must detect clients that have disconnected.
    tcp_keepalives_idle: '60',
    tcp_keepalives_interval: '10',
    tcp_keepalives_count: '6',
    // Before recovery, Postgres flushes every file to the disk. Flushing a thousand files one by one would flush the
    // disk a thousand times. Postgres logs errors of either method, and continues.
    recovery_init_sync_method: 'syncfs',
    // Settings that initdb writes into the file that the operator replaces.
    datestyle: 'iso, mdy',
    timezone: 'UTC',
    lc_monetary: 'C',
    lc_numeric: 'C',
    lc_time: 'C',
    default_text_search_config: 'pg_catalog.english',
  }
}

/**
 * Settings that nothing overrides.
 *
 * - Postgres logs to standard error, where the cluster collects the log. There is no logging collector, and no log file
 *   on the user's volume; the JSON log would need both. The prefix begins with values of the server itself (time in
 *   UTC, process and line number, SQLSTATE). So no user's name can be read as a level: the level is the first word
 *   after the prefix. The API parses it (api/logs/entries.ts).
 * - wal_level is `replica`, which base backups need. `logical` would cost WAL without use: no user's role has
 *   REPLICATION, so none could read it.
 * - archive_mode is on, with a command that succeeds. Enabling it later would take a restart, and a failing command
 *   would retain every WAL file. If the database archives, the command waits for the agent
 *   (member/archive/settings.ts).
 * - summarize_wal (from 17 on): incremental backups need it, and missing summaries cannot be created later.
 * - max_slot_wal_keep_size: WAL is on the same volume as the data. If a copy never fetches its WAL, it loses its slot
 *   before the volume is full.
 * - pg_stat_statements records only statements on data: statements that create roles contain passwords.
 * - Postgres has no addresses and sockets, except the one on the command line.
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
    // The gateway depends on this value: a connection that is older has logged in.
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

/** A size may set another limit, but not an unlimited one: temporary files would fill the volume. */
const isUnbounded = (limit: string): boolean => /^\s*(-|$)/.test(limit)

/** Every setting of postgresql.conf for a size, in Postgres's syntax. */
export function postgresSettings(
  shape: SizeShape,
  version: PgVersion,
  archiveCommand?: string | undefined,
): Record<string, string> {
  const own = Object.entries(shape.postgresSettings).filter(
    ([name, value]) => isSettingForSizes(name) && !(name === 'temp_file_limit' && isUnbounded(value)),
  )
  const archiving: Record<string, string> = archiveCommand === undefined ? {} : { archive_command: archiveCommand }
  return { ...derivedSettings(shape), ...Object.fromEntries(own), ...fixedSettings(shape, version), ...archiving }
}

/**
 * The rules of pg_hba.conf. The first matching line decides, so later lines cannot bypass it.
 *
 * - The superuser logs in only with the operator's certificate, from any address.
 * - The replication role logs in with its own certificate, and to no database.
 * - The monitoring role logs in with this instance's certificate, and only to the platform's database.
 * - Every other role logs in with a password over TLS.
 * - A connection without TLS is refused.
 */
const pgHba = (archives: boolean) => `# TYPE     DATABASE     USER                  ADDRESS  METHOD
hostnossl  all          all                   all      reject
hostnossl  replication  all                   all      reject
hostssl    all          ${superuser}              all      cert map=espalier
${archives ? archiverHba : ''}hostssl    replication  ${replicationRole}  all      cert map=espalier_replication
hostssl    replication  all                   all      reject
hostssl    all          ${replicationRole}  all      reject
hostssl    ${maintenanceDatabase}    ${monitorRole}      all      cert map=espalier_monitor
hostssl    all          ${monitorRole}      all      reject
hostssl    all          all                   all      scram-sha-256
`

/** The archiver's certificate permits replication only from its own pod's address. */
const archiverHba = `hostssl    replication  ${replicationRole}  samehost  cert map=espalier_archiver\n`

const pgIdent = (id: string, archives: boolean): string => `# MAP                 SYSTEM-USERNAME       PG-USERNAME
espalier              ${operatorCommonName}     ${superuser}
espalier_replication  ${replicationCommonName}  ${replicationRole}
espalier_monitor      ${monitorCommonName(id)}  ${monitorRole}
${archives ? archiverIdent(id) : ''}`

/**
 * In the embedded cluster every instance has an address of the same machine. So this map also accepts the platform's
 * certificate.
 */
const archiverIdent = (id: string): string => `espalier_archiver     ${archiverCommonName(id)}  ${replicationRole}
espalier_archiver     ${replicationCommonName}  ${replicationRole}
`

/** The digest of the files, which shows the operator which version is applied. */
const digestOfFiles = (files: Readonly<Record<ConfigurationFile, string>>): string =>
  createHash('sha256')
    .update(JSON.stringify(Object.entries(files).sort()))
    .digest('hex')
    .slice(0, 16)

type RenderedConfiguration = { files: Record<ConfigurationFile, string>; digest: string }

/**
 * The three files, with the digest in the first one. `id`: of the instance's database or branch. `archiveCommand`: set
 * if the instance archives.
 */
export function renderWithDigest(
  shape: SizeShape,
  version: PgVersion,
  id: string,
  archiveCommand?: string | undefined,
): RenderedConfiguration {
  const heading = '# Written by the operator; changes made here are lost.\n'
  const files = {
    'postgresql.conf': heading + renderSettings(postgresSettings(shape, version, archiveCommand)),
    'pg_hba.conf': heading + pgHba(archiveCommand !== undefined),
    'pg_ident.conf': heading + pgIdent(id, archiveCommand !== undefined),
  }
  const digest = digestOfFiles(files)
  const withDigest = files['postgresql.conf'] + renderSettings({ [digestSetting]: digest })
  return { files: { ...files, 'postgresql.conf': withDigest }, digest }
}

/** The three files, for InstanceConfiguration.files. */
export const renderConfiguration = (
  shape: SizeShape,
  version: PgVersion,
  id: string,
): Record<ConfigurationFile, string> => renderWithDigest(shape, version, id).files

/**
 * The command of the Postgres container, for a volume mounted at this path. `POD_IP` must be in its environment (the
 * downward API). Settings on the command line override every file.
 */
export const postgresCommand = (volume: string): string[] => [
  'postgres',
  '-D',
  `${volume}/${dataDirectory}`,
  '-c',
  'listen_addresses=$(POD_IP)',
]
