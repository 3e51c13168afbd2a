/** The status of a resource that runs once and ends, such as a backup or a restore, with the findings of a pass. */
import type { Condition, ObjectMeta } from '../../crds/index.ts'
import { durationText } from '../../values/time.ts'
import { conditionsAfter, conditionTypes, type Finding } from './conditions.ts'

/** DatabaseServing exists only while a backup waits for a database that does not serve. */
const types = conditionTypes<'Ready' | 'Progressing' | 'DatabaseServing'>(['Ready', 'Progressing'], ['DatabaseServing'])

type Run = { metadata: ObjectMeta; status?: { conditions?: Condition[] | undefined } | undefined }

type Times = { startedAt?: string | undefined; finishedAt?: string | undefined; duration?: string | undefined }

/** Written once, when the run ends. */
const durationOf = ({ startedAt, finishedAt, duration }: Times): { duration?: string } =>
  duration !== undefined || startedAt === undefined || finishedAt === undefined
    ? {}
    : { duration: durationText(Date.parse(startedAt), Date.parse(finishedAt)) }

/** `status`: other fields to set. */
export const withFindings = <Status extends Times>(
  { metadata: { generation }, status: before }: Run,
  status: Status,
  findings: { Ready?: Finding; Progressing: Finding; DatabaseServing?: Finding },
  now: number,
): Status & { conditions: Condition[] } => ({
  ...status,
  ...durationOf(status),
  ...(generation === undefined ? {} : { observedGeneration: generation }),
  conditions: conditionsAfter(types, before?.conditions ?? [], findings, generation, now),
})
