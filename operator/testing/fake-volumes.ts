/**
 * Does what a storage driver and a kubelet do, without storage. Volumes are created, unless the storage refuses. They
 * grow in steps, only when a test permits it, or never because of the driver or the cluster's admission.
 */
import { type Cluster, ClusterError, type Draft, type PersistentVolumeClaim } from '../../cluster/index.ts'
import { quantityToBytes } from '../../values/quantity.ts'

export type FakeVolumes = {
  /** Returns why a claim gets no volume; an Event reports this. Undefined if the claim gets one. */
  unprovisioned(claim: PersistentVolumeClaim): string | undefined
  /** Whether a claim without a volume must not get one. */
  withholds(claim: PersistentVolumeClaim): Promise<boolean>
  /** `held`: no step is taken. `failing`: the driver reports an error. */
  growth: { mode: 'growing' } | { mode: 'held' } | { mode: 'failing'; message: string }
  /** Why the cluster refuses a larger request: a quota, or a class that cannot expand. */
  refusal: string | undefined
  /** The cluster for clients, with this admission. */
  admitting(cluster: Cluster): Cluster
  /** Takes the next step of a claim's growth, if there is one. */
  step(claim: PersistentVolumeClaim, isMounted: boolean): Promise<void>
}

const storageOf = (quantity: string | undefined): number => quantityToBytes(quantity ?? '0')
/** The class that the cluster sets in a claim without a class. */
export const defaultClass = 'standard'
const pending = 'FileSystemResizePending'

export function createFakeVolumes(own: Cluster): FakeVolumes {
  const write = async (claim: PersistentVolumeClaim, status: PersistentVolumeClaim['status']) => {
    await own.replaceStatus('PersistentVolumeClaim', { ...claim, status: { ...claim.status, ...status } })
  }
  const condition = (type: string, message: string) => ({ type, status: 'True', message })

  const notified = new Set<string>()
  const writeEvent = async (
    { metadata: { namespace = '', name, uid = '' } }: PersistentVolumeClaim,
    message: string,
  ) => {
    if (notified.has(uid)) return
    notified.add(uid)
    await own.create('Event', {
      apiVersion: 'v1',
      kind: 'Event',
      metadata: { name: `${name}.${uid}`, namespace },
      involvedObject: { apiVersion: 'v1', kind: 'PersistentVolumeClaim', namespace, name, uid },
      type: 'Warning',
      reason: 'ProvisioningFailed',
      message,
      lastTimestamp: '2026-01-02T03:04:05Z',
    })
  }

  const volumes: FakeVolumes = {
    unprovisioned: () => undefined,
    withholds: async claim => {
      if (claim.spec?.volumeName !== undefined) return false
      const why = volumes.unprovisioned(claim)
      if (why !== undefined) await writeEvent(claim, why)
      return why !== undefined
    },
    growth: { mode: 'growing' },
    refusal: undefined,
    admitting: inner => ({
      ...inner,
      create: (kind, draft) => {
        if (kind !== 'PersistentVolumeClaim') return inner.create(kind, draft)
        const requested = draft as Draft<'PersistentVolumeClaim'> // of that kind
        const admitted = { ...requested, spec: { storageClassName: defaultClass, ...requested.spec } }
        return inner.create(kind, admitted as typeof draft)
      },
      replace: async (kind, object) => {
        if (kind !== 'PersistentVolumeClaim' || volumes.refusal === undefined) return inner.replace(kind, object)
        const requested = object as PersistentVolumeClaim // of that kind
        const before = await inner.get('PersistentVolumeClaim', requested.metadata)
        const requests = (claim: PersistentVolumeClaim | undefined) => claim?.spec?.resources?.requests?.storage
        if (storageOf(requests(requested)) > storageOf(requests(before)))
          throw new ClusterError(
            'Forbidden',
            `persistentvolumeclaims "${requested.metadata.name}" is forbidden: ${volumes.refusal}`,
          )
        return inner.replace(kind, object)
      },
    }),
    step: async (claim, isMounted) => {
      const { growth } = volumes
      const { status, spec } = claim
      const storage = spec?.resources?.requests?.storage ?? '0'
      if (status?.phase !== 'Bound' || storageOf(status.capacity?.storage) >= storageOf(storage)) return
      if (growth.mode === 'held') return
      const isPending = status.conditions?.some(({ type }) => type === pending) === true
      const allocatedResources = { storage }
      if (growth.mode === 'failing') {
        if (status.allocatedResourceStatuses?.storage !== 'ControllerResizeInfeasible')
          await write(claim, {
            allocatedResources,
            allocatedResourceStatuses: { storage: 'ControllerResizeInfeasible' },
            conditions: [condition('ControllerResizeError', growth.message)],
          })
      } else if (!isPending) {
        await write(claim, {
          allocatedResources,
          allocatedResourceStatuses: { storage: 'NodeResizePending' },
          conditions: [condition(pending, 'waiting for a pod')],
        })
      } else if (isMounted) {
        await own.replaceStatus('PersistentVolumeClaim', {
          ...claim,
          status: { phase: 'Bound', capacity: { storage }, allocatedResources },
        })
      }
    },
  }
  return volumes
}
