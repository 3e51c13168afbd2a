/**
 * Postgres servers that are a few fields in memory: what the operator asks of one, without the second that a real one
 * takes to initialise. A server's data live with the uid of its volume claim, as real data do on a volume.
 */
import { databaseRoles } from '../../crds/index.ts'
import type { Login, PostgresAccess } from '../managed-database/access.ts'
import {
  type ChecksumFailures,
  type DesiredRoles,
  PostgresError,
  type PostgresObservation,
  type PostgresTarget,
  type RoleObservation,
} from '../postgres/administrator.ts'
import type { ConfigurationState } from '../postgres/state.ts'

type Role = { mark: string; password: string }

export type FakeData = {
  systemIdentifier: string
  roles: Partial<Record<(typeof databaseRoles)[number], Role>>
  /** The volume takes nothing more. */
  isFull?: boolean
  /** It answers no look in time. */
  isSlow?: boolean
  /** No commit comes to rest on its disk. */
  walHangs?: boolean
  checksumFailures?: ChecksumFailures
  /** The platform's own role and statistics were made. */
  hasPlatform?: boolean
  configuration: ConfigurationState
}

export type FakePostgres = {
  access: PostgresAccess
  /** What stands on a claim's volume, by the claim's uid. */
  readonly data: Map<string, FakeData>
  /** How often the server at an address was looked at. */
  readonly looks: Map<string, number>
  /** How often any volume was initialised. */
  readonly initialised: Map<string, number>
  /** A server starts: on the data of this claim, at this address, with the files of this digest. */
  start(address: string, claimUid: string, digest: string | null): void
  /** Other files are mounted. */
  mount(claimUid: string, digest: string | null): void
  /** How often any server was told to read its files again. */
  readonly reloads: Map<string, number>
  stop(address: string): void
  initialise(claimUid: string): void
  /** A user sets a role's password. */
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
  const looks = new Map<string, number>()
  const servers = new Map<string, string>()
  const reloads = new Map<string, number>()
  let systems = 7_000_000_000_000_000_000n

  const find = ({ host }: PostgresTarget): FakeData => {
    const found = data.get(servers.get(host) ?? '')
    if (found === undefined) throw new PostgresError('network', `connect ECONNREFUSED ${host}`, 'ECONNREFUSED')
    return found
  }

  const observeRole = (role: Role | undefined, password: string | undefined): RoleObservation => {
    if (role === undefined) return { exists: false, password: 'absent', credentialsMark: undefined }
    const compared = password === undefined ? 'unknown' : role.password === password ? 'ours' : 'changed'
    return { exists: true, password: compared, credentialsMark: role.mark }
  }

  const access: PostgresAccess = {
    observe: async (target, { passwords, commits }): Promise<PostgresObservation> => {
      looks.set(target.host, (looks.get(target.host) ?? 0) + 1)
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
          certificate: undefined,
          walPosition: '0/1',
          checksumFailures,
          wal: commits ? (walHangs ? 'hangs' : 'written') : 'unasked',
          hasRoom: isFull !== true,
          privilegesInOrder: exists,
          platformInOrder: more.hasPlatform === true,
          configuration: { ...more.configuration },
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
    ensureRoles: async (target, { passwords, mark }: DesiredRoles) => {
      const found = find(target)
      const { roles } = found
      found.hasPlatform = true
      for (const role of databaseRoles)
        if (roles[role]?.mark !== mark) roles[role] = { mark, password: passwords[role] }
    },
    login: async (target, password): Promise<Login> => {
      const isRight = find(target).roles.app?.password === password
      return isRight
        ? { result: 'succeeded' }
        : { result: 'refused', message: 'password authentication failed for user "app"' }
    },
    reload: async target => {
      const { configuration } = find(target)
      const uid = servers.get(target.host) ?? ''
      reloads.set(uid, (reloads.get(uid) ?? 0) + 1)
      if (configuration.isMounted && configuration.errors.length === 0) configuration.inForce = configuration.onDisk
    },
  }

  return {
    access,
    data,
    initialised,
    looks,
    reloads,
    start: (address, claimUid, digest) => {
      servers.set(address, claimUid)
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
    changePassword: (claimUid, role, password) => {
      const found = data.get(claimUid)?.roles[role]
      if (found !== undefined) found.password = password
    },
  }
}
