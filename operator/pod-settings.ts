/**
 * An installation's settings for every database's pod: where it may run, how its images are pulled, and how long it may
 * take to stop. Each setting has the type that Kubernetes uses in a pod. So the operator reports an invalid value at
 * its start, before the cluster refuses every StatefulSet.
 */
import { z } from 'zod'

const objectName = z
  .string()
  .max(253)
  .regex(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/, 'must be the name of an object')
const labelKey = z
  .string()
  .max(317)
  .regex(
    /^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?\/)?[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?$/,
    'must be the key of a label',
  )
const labelValue = z
  .string()
  .max(63)
  .regex(/^([A-Za-z0-9]([-\w.]*[A-Za-z0-9])?)?$/, 'must be the value of a label')

const few = 32

const toleration = z
  .strictObject({
    key: labelKey.optional(),
    operator: z.enum(['Exists', 'Equal']).optional(),
    value: labelValue.optional(),
    effect: z.enum(['NoSchedule', 'PreferNoSchedule', 'NoExecute']).optional(),
    tolerationSeconds: z.int().optional(),
  })
  .refine(({ key, operator }) => key !== undefined || operator === 'Exists', 'without a key needs operator Exists')
  .refine(({ value, operator }) => value === undefined || operator !== 'Exists', 'takes no value with operator Exists')

const requirement = z.strictObject({
  key: labelKey,
  operator: z.enum(['In', 'NotIn', 'Exists', 'DoesNotExist', 'Gt', 'Lt']),
  values: z.array(labelValue).max(few).optional(),
})
const nodeTerm = z.strictObject({
  matchExpressions: z.array(requirement).max(few).optional(),
  matchFields: z.array(requirement).max(few).optional(),
})
const selector = z.strictObject({
  matchLabels: z.record(labelKey, labelValue).optional(),
  matchExpressions: z
    .array(
      z.strictObject({
        key: labelKey,
        operator: z.enum(['In', 'NotIn', 'Exists', 'DoesNotExist']),
        values: z.array(labelValue).max(few).optional(),
      }),
    )
    .max(few)
    .optional(),
})
const podTerm = z.strictObject({
  topologyKey: labelKey,
  labelSelector: selector.optional(),
  matchLabelKeys: z.array(labelKey).max(few).optional(),
  mismatchLabelKeys: z.array(labelKey).max(few).optional(),
  namespaces: z.array(objectName).max(few).optional(),
  namespaceSelector: selector.optional(),
})
const weight = z.int().min(1).max(100)
const podTerms = z.strictObject({
  requiredDuringSchedulingIgnoredDuringExecution: z.array(podTerm).max(few).optional(),
  preferredDuringSchedulingIgnoredDuringExecution: z
    .array(z.strictObject({ weight, podAffinityTerm: podTerm }))
    .max(few)
    .optional(),
})
const affinity = z.strictObject({
  nodeAffinity: z
    .strictObject({
      requiredDuringSchedulingIgnoredDuringExecution: z
        .strictObject({ nodeSelectorTerms: z.array(nodeTerm).min(1).max(few) })
        .optional(),
      preferredDuringSchedulingIgnoredDuringExecution: z
        .array(z.strictObject({ weight, preference: nodeTerm }))
        .max(few)
        .optional(),
    })
    .optional(),
  podAffinity: podTerms.optional(),
  podAntiAffinity: podTerms.optional(),
})
const spread = z.strictObject({
  topologyKey: labelKey,
  maxSkew: z.int().min(1),
  whenUnsatisfiable: z.enum(['DoNotSchedule', 'ScheduleAnyway']),
  labelSelector: selector.optional().describe('omitted: the Postgres pods of the namespace'),
  matchLabelKeys: z.array(labelKey).max(few).optional(),
  minDomains: z.int().min(1).optional(),
  nodeAffinityPolicy: z.enum(['Honor', 'Ignore']).optional(),
  nodeTaintsPolicy: z.enum(['Honor', 'Ignore']).optional(),
})

const ipBlock = z
  .strictObject({
    cidr: z.union([z.cidrv4(), z.cidrv6()]),
    except: z
      .array(z.union([z.cidrv4(), z.cidrv6()]))
      .max(few)
      .optional(),
  })
  .optional()

export const podSettings = z.strictObject({
  imagePullSecrets: z
    .array(z.strictObject({ name: objectName }))
    .max(few)
    .default([])
    .describe('Secrets of the system namespace; each is copied into the namespace of every tenant'),
  priorityClassName: objectName.optional(),
  nodeSelector: z.record(labelKey, labelValue).default({}),
  tolerations: z.array(toleration).max(few).default([]),
  affinity: affinity.optional(),
  topologySpreadConstraints: z.array(spread).max(few).default([]),
  terminationGracePeriodSeconds: z
    .int()
    .min(30)
    .max(86_400)
    .default(1800)
    .describe(
      'termination grace period, for the checkpoint of a fast shutdown; after it the pod is killed, and recovers when it starts',
    ),
  metricsFrom: z
    .array(z.strictObject({ namespaceSelector: selector.optional(), podSelector: selector.optional(), ipBlock }))
    .max(few)
    .default([])
    .describe("clients that may connect to databases' agents besides the API, as NetworkPolicy peers"),
  apiConnects: z
    .boolean()
    .default(false)
    .describe('whether the API may connect to Postgres and to services, for the requests of its callers'),
  disruptionBudget: z
    .boolean()
    .default(false)
    .describe('true: no database is evicted (a drain waits until its pod is deleted otherwise)'),
  archive: z
    .strictObject({
      url: z
        .url({ protocol: /^https$/, error: 'must be an https URL' })
        .max(300)
        .describe("the archive's URL for agents"),
    })
    .optional()
    .describe('the archive of databases with the durable tier; omitted: no database archives'),
})
export type PodSettings = z.output<typeof podSettings>
