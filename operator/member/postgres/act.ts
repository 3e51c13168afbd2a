/** Changes a member's Postgres over a connection. */
import type { PostgresTarget, ReadDesiredRoles } from '../../postgres/administrator.ts'
import type { PostgresAccess } from './access.ts'
import type { PostgresAction } from './actions.ts'

export type PostgresExecutor = {
  /** Marks the last answer of this Postgres as outdated. `failed`: the change failed. */
  outdateProbe: (memberKey: string, failed: boolean) => void
}

/**
 * `memberKey`: contains the owner's key and the member's number. Without `access` or `target`, the operator cannot
 * reach Postgres, and changes nothing.
 */
export type PostgresPass = {
  memberKey: string
  access: PostgresAccess | undefined
  target: PostgresTarget | undefined
  signal: AbortSignal
}

/** `readRoles`: undefined if the credentials are not readable. Then only `reload` and `detach` have an effect. */
export async function performPostgres(
  executor: PostgresExecutor,
  pass: PostgresPass,
  action: PostgresAction,
  readRoles: ReadDesiredRoles | undefined,
): Promise<void> {
  await withPostgres(executor, pass, async (access, target) => {
    if (action.do === 'reload') await access.reload(target, pass.signal)
    else if (action.do === 'detach') await access.dropInherited(target, pass.signal)
    else if (readRoles === undefined) return
    else if (action.do === 'open') await access.open(target, readRoles, pass.signal)
    else
      await access.ensureRoles(target, readRoles, pass.signal, {
        opens: action.opens,
        keepsPasswords: action.keepsPasswords,
      })
  })
}

/** Runs `work` while no other operator changes the roles. Does nothing if Postgres cannot be reached. */
export const withRolesLocked = (
  executor: PostgresExecutor,
  pass: PostgresPass,
  work: () => Promise<void>,
): Promise<void> => withPostgres(executor, pass, (access, target) => access.withRolesLocked(target, work, pass.signal))

/** Runs `work` if Postgres can be reached. Then marks Postgres's last answer as outdated, even if `work` failed. */
async function withPostgres(
  { outdateProbe }: PostgresExecutor,
  { memberKey, access, target }: PostgresPass,
  work: (access: PostgresAccess, target: PostgresTarget) => Promise<void>,
): Promise<void> {
  if (access === undefined || target === undefined) return
  let failed = true
  try {
    await work(access, target)
    failed = false
  } finally {
    outdateProbe(memberKey, failed)
  }
}
