/** The part of every owner's status that reports its Postgres. Each kind adds its own fields. Pure. */
import { pendingRestarts, restartFinding } from '../../member/pod/plan/pending-restart.ts'
import { recordedSize, sizeFinding } from '../../member/pod/plan/size.ts'
import { configurationFinding } from '../../member/postgres/plan/configuration.ts'
import { nextRecord } from '../../member/storage/plan/record.ts'
import type { Finding } from '../../objects/conditions.ts'
import type { InstanceStatus } from '../../objects/instance.ts'
import { isUpToDate } from '../../objects/up-to-date.ts'
import type { ServicesPlan } from '../../service/plan/index.ts'
import type { Assessment } from '../../workload/plan/assessment.ts'
import type { InstanceFindings } from '../../workload/plan/findings.ts'
import { instancesOf } from '../../workload/plan/instances.ts'
import { storageUsed } from '../../workload/plan/waits.ts'
import type { Observed } from '../observed.ts'

/** Does not report whether a creation or a change has ended: the kind decides that. */
type PostgresStatus = Pick<
  InstanceStatus,
  'size' | 'incarnation' | 'volume' | 'endpoint' | 'domain' | 'storage' | 'pendingRestart'
> & {
  services: ServicesPlan['status']
  instances: ReturnType<typeof instancesOf>
  storageUsedBytes: number | undefined
}

/** `before`: the status at the start of the pass. `resizing`: why the requested size is not applied. */
export function statusOf(
  observed: Observed,
  { answered, autogrown, desired, findings, fatal, services }: Assessment,
  before: InstanceStatus & { storageUsedBytes?: number | undefined },
  now: number,
): { findings: InstanceFindings; status: PostgresStatus; resizing: Finding | undefined } {
  const { children, incarnation } = observed
  const refused = configurationFinding(observed)
  const pending = pendingRestarts(observed, desired, now)
  const restarts = restartFinding(pending)
  const isPrepared = isUpToDate(children.statefulSet, desired.statefulSet)
  const size = recordedSize(observed, desired.size, isPrepared)
  return {
    resizing: sizeFinding(observed, desired.size, size),
    findings: {
      ...findings,
      ...(refused ? { ConfigurationRefused: refused } : {}),
      ...(restarts ? { RestartPending: restarts } : {}),
    },
    status: {
      size,
      incarnation,
      volume: nextRecord(observed, fatal ? undefined : answered),
      endpoint: desired.endpoint ?? before.endpoint,
      domain: desired.domain ?? before.domain,
      instances: instancesOf(observed),
      services: services.status,
      storage: autogrown.status,
      storageUsedBytes: storageUsed(before.storageUsedBytes, observed.dataBytes),
      pendingRestart: pending.length > 0 ? pending : undefined,
    },
  }
}
