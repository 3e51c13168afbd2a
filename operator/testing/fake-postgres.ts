/**
 * Postgres servers as a few fields in memory. They do what the operator requests, without the second that a real server
 * takes to initialise. A server's data are stored under its volume claim's uid, like real data on a volume.
 */
import { X509Certificate } from 'node:crypto'
import { databaseRoles } from '../../sealing/credentials.ts'
import type { Login, PostgresAccess } from '../member/postgres/access.ts'
import {
  type ChecksumFailures,
  type DesiredAuthenticator,
  type DesiredMcpState,
  PostgresError,
  type PostgresObservation,
  type PostgresTarget,
  type ReadDesiredRoles,
  type References,
  type RoleObservation,
} from '../postgres/administrator.ts'
import { versionOfRole } from '../postgres/password-versions.ts'
import type { ConfigurationState } from '../postgres/state.ts'

type Role = { passwordVersion: string; password: string }

export type FakeData = {
  systemIdentifier: string
  roles: Partial<Record<(typeof databaseRoles)[number], Role>>
  /** Its disk usage, in bytes. */
  volumeUse?: number
  /** The volume is full. */
  isFull?: boolean
  /** It answers no probe within the timeout. */
  isSlow?: boolean
  /** It refuses connections although its pod runs, because it is about to start again. */
  isDown?: boolean
  /** No commit is written to its disk. */
  walHangs?: boolean
  checksumFailures?: ChecksumFailures
  /** A checkpoint waits for this promise, and fails if it rejects. */
  checkpoint?: Promise<void>
  /** The platform's own role and statistics were created. */
  hasPlatform?: boolean
  configuration: ConfigurationState
  /** The content that the database's user has stored. */
  content?: string
  /** The cluster's nodes do not route the Service to it yet. */
  isUnrouted?: boolean
  /** The login role of the service `rest`, with the version of its password. */
  authenticator?: string
  /** The storage of the service `mcp` for its conversations: the owner, and the version of its role's password. */
  mcpState?: { owner: string; passwordVersion: string | undefined }
  /** A user created a database with that name. */
  takesMcpState?: boolean
  /** Missing roles for requests without a token. */
  missingRoles?: string[]
  /** Missing schemas and tables. Each table that exists has its columns. */
  missingObjects?: string[]
  /** Whether the server has pgvector. If absent, it is installed. */
  vector?: 'installed' | 'available' | 'absent'
  /** The reported progress of an import. */
  importing?: string
  /** A closed copy. `inherited`: how much of the source's content it still has. */
  closed?: { inherited: number }
}

/** The certificate of a server, and the authorities that it trusts. PEM. */
export type Tls = { certificate: string; trusts: string }
/** Reads the TLS Secret like a mount. */
type Mounted = () => Promise<Tls | undefined>

export type FakePostgres = {
  /** How often any server was started. */
  readonly starts: Map<string, number>
  access: PostgresAccess
  /** The content of a claim's volume, by the claim's uid. */
  readonly data: Map<string, FakeData>
  /** How often the server at an address was probed. */
  readonly prober: Map<string, number>
  /** How often any volume was initialised. */
  readonly initialised: Map<string, number>
  /**
   * Starts a server on this claim's data, at this address, with the files of this digest. `mounted` returns the
   * certificate now and at each reload.
   */
  start(address: string, claimUid: string, digest: string | null, mounted?: Mounted): Promise<void>
  /** Mounts other files. */
  mount(claimUid: string, digest: string | null): void
  /** How often each server got the signal to reload its files. */
  readonly reloads: Map<string, number>
  /** How often a checkpoint was requested from the server at an address. */
  readonly checkpoints: Map<string, number>
  stop(address: string): void
  initialise(claimUid: string): void
  /** The content of a volume's snapshot. */
  imageOf(claimUid: string): FakeData | undefined
  /** Creates a volume from a snapshot, and starts it for the first time: closed. */
  copy(image: FakeData, claimUid: string): void
  /** Sets a role's password, like a user. */
  changePassword(claimUid: string, role: (typeof databaseRoles)[number], password: string): void
}

const noConfiguration: ConfigurationState = {
  inForce: null,
  onDisk: null,
  isMounted: true,
  refused: null,
  errors: [],
  pendingRestart: [],
}

export function createFakePostgres(): FakePostgres {
  const data = new Map<string, FakeData>()
  const initialised = new Map<string, number>()
  const prober = new Map<string, number>()
  const servers = new Map<string, { claimUid: string; mounted: Mounted; tls: Tls | undefined }>()
  const starts = new Map<string, number>()
  const reloads = new Map<string, number>()
  const checkpoints = new Map<string, number>()
  let systems = 7_000_000_000_000_000_000n

  const find = ({ host, ca }: PostgresTarget): FakeData => {
    const server = servers.get(host)
    const found = data.get(server?.claimUid ?? '')
    if (found === undefined || found.isDown)
      throw new PostgresError('network', `connect ECONNREFUSED ${host}`, 'ECONNREFUSED')
    if (server?.tls !== undefined) shakeHands(server.tls, ca)
    return found
  }

  const observeRole = (role: Role | undefined, password: string | undefined): RoleObservation => {
    if (role === undefined) return { exists: false, password: 'absent', passwordVersion: undefined }
    const compared = password === undefined ? 'unknown' : role.password === password ? 'ours' : 'changed'
    return { exists: true, password: compared, passwordVersion: role.passwordVersion }
  }

  const observeLogin = (found: Pick<FakeData, 'authenticator' | 'missingRoles'>, wanted: DesiredAuthenticator) => ({
    role: found.authenticator === undefined ? ('missing' as const) : ('ours' as const),
    inOrder: found.authenticator === wanted.passwordVersion,
    anonymousRoles: Object.fromEntries(
      wanted.anonymousRoles.map(role => [
        role,
        { kind: found.missingRoles?.includes(role) === true ? ('missing' as const) : ('granted' as const) },
      ]),
    ),
  })

  const findReferences = (
    { missingObjects = [], vector = 'installed' }: Pick<FakeData, 'missingObjects' | 'vector'>,
    { digest, schemas, tables, needsVector }: References,
  ) => ({
    digest,
    found: {
      missingSchemas: schemas.filter(name => missingObjects.includes(name)),
      vector: needsVector ? vector : ('unneeded' as const),
      tables: tables.map(({ name }) => {
        const exists = !missingObjects.includes(name)
        return { exists, missing: [], vectors: exists ? [{ type: 'vector', dimensions: -1 }] : [] }
      }),
    },
  })

  const observeState = (found: Pick<FakeData, 'mcpState' | 'takesMcpState'>, wanted: DesiredMcpState) => {
    if (wanted.login === undefined) return {}
    const { mcpState } = found
    const inOrder = mcpState?.owner === wanted.owner && mcpState.passwordVersion === wanted.login.passwordVersion
    return {
      mcpState: found.takesMcpState
        ? { kind: 'foreign' as const, taken: 'database' as const }
        : { kind: 'ours' as const, inOrder },
    }
  }
  const stateRemains = ({ mcpState }: Pick<FakeData, 'mcpState'>, wanted: DesiredMcpState | undefined) =>
    mcpState !== undefined && wanted !== undefined && (!wanted.isRequested || mcpState.owner !== wanted.owner)

  const access: PostgresAccess = {
    observe: async (
      target,
      { passwords, commits, authenticator, references, mcpState },
    ): Promise<PostgresObservation> => {
      prober.set(target.host, (prober.get(target.host) ?? 0) + 1)
      try {
        const { systemIdentifier, roles, isFull, isSlow, walHangs, checksumFailures = null, ...more } = find(target)
        if (isSlow) return { reachable: false, reason: 'timeout', message: 'Query read timeout' }
        const exists = databaseRoles.every(role => roles[role] !== undefined)
        return {
          reachable: true,
          serverVersion: 180000,
          systemIdentifier,
          inRecovery: false,
          checksums: true,
          roles: {
            admin: observeRole(roles.admin, passwords?.admin),
            app: observeRole(roles.app, passwords?.app),
            app_read_only: observeRole(roles.app_read_only, passwords?.app_read_only),
          },
          applicationDatabase: exists,
          certificate: fingerprintOf(servers.get(target.host)?.tls),
          walPosition: '0/1',
          checksumFailures,
          wal: commits ? (walHangs ? 'hangs' : 'written') : 'unasked',
          hasFreeSpace: isFull !== true,
          privilegesInOrder: exists,
          platformInOrder:
            more.hasPlatform === true &&
            (authenticator !== undefined || more.authenticator === undefined) &&
            !stateRemains(more, mcpState),
          configuration: { ...more.configuration },
          ...(authenticator === undefined ? {} : { authenticator: observeLogin(more, authenticator) }),
          ...(references === undefined ? {} : { references: findReferences(more, references) }),
          ...(mcpState === undefined ? {} : observeState(more, mcpState)),
          ...(more.importing === undefined ? {} : { importing: more.importing }),
          ...(more.closed ? { closed: { ...more.closed } } : {}),
        }
      } catch (error) {
        if (!(error instanceof PostgresError)) throw error
        return { reachable: false, reason: error.reason, message: error.message }
      }
    },
    measure: async target => {
      find(target)
      return 8_000_000
    },
    measureVolume: async target => find(target).volumeUse ?? 50_000_000,
    ensureRoles: async (target, desired: ReadDesiredRoles, _signal, { opens = false, keepsPasswords = false } = {}) => {
      const found = find(target)
      const { roles } = found
      const { passwords, passwordVersion, authenticator, mcpState } = await desired()
      if (authenticator === undefined) delete found.authenticator
      else found.authenticator = authenticator.passwordVersion
      if (stateRemains(found, mcpState)) delete found.mcpState
      if (mcpState?.login !== undefined && !found.takesMcpState)
        found.mcpState = { owner: mcpState.owner, passwordVersion: mcpState.login.passwordVersion }
      found.hasPlatform = true
      for (const role of databaseRoles)
        if (!keepsPasswords && roles[role]?.passwordVersion !== versionOfRole(passwordVersion, role))
          roles[role] = { passwordVersion: versionOfRole(passwordVersion, role), password: passwords[role] }
      if (opens && !found.closed?.inherited && !stateRemains(found, mcpState)) delete found.closed
    },
    withRolesLocked: async (target, work) => {
      find(target)
      await work()
    },
    dropInherited: async target => {
      const { closed } = find(target)
      if (closed !== undefined) closed.inherited = 0
    },
    open: async (target, desired) => {
      const found = find(target)
      if (stateRemains(found, (await desired()).mcpState))
        throw new Error('the copy to open has conversations of its source')
      if (found.closed?.inherited) throw new Error('the copy to open still has slots or subscriptions of its source')
      delete found.closed
    },
    login: async (target, password): Promise<Login> => {
      const { roles, closed, isUnrouted } = find(target)
      if (isUnrouted) return { result: 'unreachable', message: 'connect ECONNREFUSED' }
      const isRight = closed === undefined && roles.app?.password === password
      return isRight
        ? { result: 'succeeded' }
        : { result: 'refused', message: 'password authentication failed for user "app"' }
    },
    reload: async target => {
      const { configuration } = find(target)
      const server = servers.get(target.host)
      const uid = server?.claimUid ?? ''
      reloads.set(uid, (reloads.get(uid) ?? 0) + 1)
      if (configuration.isMounted && configuration.errors.length === 0) configuration.inForce = configuration.onDisk
      if (server !== undefined) server.tls = await server.mounted()
    },
    checkpoint: async (target, signal) => {
      const { checkpoint, systemIdentifier } = find(target)
      checkpoints.set(target.host, (checkpoints.get(target.host) ?? 0) + 1)
      await Promise.race([checkpoint, aborted(signal)])
      // If the server has ended meanwhile, the client got no answer.
      find(target)
      return { systemIdentifier, timeline: 1, startLsn: '0/2000028', endLsn: '0/2000100' }
    },
  }

  return {
    access,
    data,
    initialised,
    prober,
    reloads,
    checkpoints,
    starts,
    start: async (address, claimUid, digest, mounted = async () => undefined) => {
      starts.set(claimUid, (starts.get(claimUid) ?? 0) + 1)
      servers.set(address, { claimUid, mounted, tls: await mounted() })
      const found = data.get(claimUid)
      if (found === undefined) return
      const pendingRestart: string[] = []
      found.configuration = { ...found.configuration, inForce: digest, onDisk: digest, isMounted: true, pendingRestart }
    },
    mount: (claimUid, digest) => {
      const found = data.get(claimUid)
      if (found !== undefined) found.configuration.onDisk = digest
    },
    stop: address => {
      servers.delete(address)
    },
    initialise: claimUid => {
      initialised.set(claimUid, (initialised.get(claimUid) ?? 0) + 1)
      data.set(claimUid, { systemIdentifier: String(++systems), roles: {}, configuration: { ...noConfiguration } })
    },
    imageOf: claimUid => {
      const found = data.get(claimUid)
      return found && imageOf(found)
    },
    copy: (image, claimUid) => void data.set(claimUid, { ...imageOf(image), closed: { inherited: 1 } }),
    changePassword: (claimUid, role, password) => {
      const found = data.get(claimUid)?.roles[role]
      if (found !== undefined) found.password = password
    },
  }
}

const imageOf = ({
  systemIdentifier,
  roles,
  hasPlatform,
  configuration,
  content,
  isUnrouted,
  mcpState,
}: FakeData): FakeData => ({
  systemIdentifier,
  roles: structuredClone(roles),
  configuration: structuredClone(configuration),
  ...(hasPlatform === undefined ? {} : { hasPlatform }),
  ...(content === undefined ? {} : { content }),
  ...(mcpState === undefined ? {} : { mcpState: { ...mcpState } }),
  ...(isUnrouted === undefined ? {} : { isUnrouted }),
})

const aborted = (signal: AbortSignal): Promise<never> =>
  new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })

const certificatesIn = (pem: string): string[] => pem.match(/-----BEGIN[^-]+-----[^-]+-----END[^-]+-----/g) ?? []

const fingerprintOf = (tls: Tls | undefined): string | undefined =>
  tls === undefined ? undefined : new X509Certificate(tls.certificate).fingerprint256

const verified = new Map<string, boolean>()

function isSignedBy(certificate: string, authority: string): boolean {
  const key = `${certificate}${authority}`
  const known = verified.get(key)
  if (known !== undefined) return known
  const isSigned = new X509Certificate(certificate).verify(new X509Certificate(authority).publicKey)
  verified.set(key, isSigned)
  return isSigned
}

/**
 * Client and server verify each other. `ca` contains the authorities whose keys the operator has. So it also represents
 * the operator's client certificates: the server must trust one of them.
 */
function shakeHands({ certificate, trusts }: Tls, ca: string): void {
  const accepted = certificatesIn(ca)
  if (!accepted.some(authority => isSignedBy(certificate, authority)))
    throw new PostgresError('tls', 'unable to verify the first certificate', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE')
  if (!certificatesIn(trusts).some(authority => accepted.includes(authority)))
    throw new PostgresError('tls', 'tlsv1 alert unknown ca', 'ERR_SSL_TLSV1_ALERT_UNKNOWN_CA')
}
