/** Plans when the operator writes and deletes the connection Secrets. Pure. */
import { isRotationApplied } from '../../endpoint/plan/rotation.ts'
import { type Finding, no, yes } from '../../objects/conditions.ts'
import type { Assessment } from '../../workload/plan/assessment.ts'
import type { Action } from '../actions.ts'
import type { Observed } from '../observed.ts'

/**
 * Whether Postgres accepts the passwords of the credentials Secret. During a rotation, the connection Secrets keep the
 * previous password until Postgres has the new one.
 */
function areValid(observed: Observed, { findings, answered }: Assessment): boolean {
  const { credentials } = observed
  if (credentials.state !== 'readable') return false
  if (credentials.previous.length > 0) return isRotationApplied(observed, answered)
  return findings.CredentialsReady?.status === 'True'
}

export function connectionSecrets(
  observed: Observed,
  assessment: Assessment,
): { actions: Action[]; finding: Finding | undefined } {
  const { isRequested, wanted, unwanted } = observed.connectionSecrets
  const actions: Action[] = unwanted.map(({ name, namespace = '', uid = '' }) => ({
    ...{ do: 'delete', kind: 'Secret', name, namespace, uid },
  }))
  if (!isRequested) return { actions, finding: undefined }
  const open = wanted.filter(({ state }) => state === 'absent' || state === 'outdated')
  const mayWrite = areValid(observed, assessment)
  if (mayWrite) actions.push(...open.map(secret => ({ do: 'write-connection-secret' as const, secret })))
  return { actions, finding: findingOf(observed, open.length > 0, mayWrite) }
}

function findingOf({ connectionSecrets: { wanted } }: Observed, isOpen: boolean, mayWrite: boolean): Finding {
  const foreign = wanted.filter(({ state }) => state === 'foreign').map(({ name }) => name)
  if (foreign.length > 0)
    return no(
      'NameTaken',
      `${foreign.join(', ')}: a Secret of that name exists and does not belong to this database; it is not changed. Delete it to get the database's own`,
    )
  if (wanted.length === 0) return no('Pending', 'waiting for the address of the database')
  if (!isOpen) return yes('Written', `written: ${wanted.map(({ name }) => name).join(', ')}`)
  return mayWrite
    ? no('Pending', 'the Secrets are being written')
    : no('Pending', 'waiting until Postgres has the passwords')
}
