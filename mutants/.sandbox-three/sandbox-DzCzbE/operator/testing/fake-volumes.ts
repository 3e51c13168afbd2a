/**
 * How volumes are made, unless the storage says no, and how they grow without any: in steps, as a storage driver and a kubelet
 * take them; not until they are let; or never, for a reason of the driver's or of the cluster's admission.
 */
// @ts-nocheck

import { type Cluster, ClusterError, type Draft, type PersistentVolumeClaim } from '../../cluster/index.ts'
import { quantityToBytes } from '../../values/quantity.ts'

export type FakeVolumes = {
  /** Why a claim gets no volume, which an Event on it tells; undefined where it gets one. */
  unprovisioned(claim: PersistentVolumeClaim): string | undefined
  /** Whether a claim that has no volume gets none. */
  withholds(claim: PersistentVolumeClaim): Promise<boolean>
  /** `held`: no step is taken. `failing`: the driver cannot, and says so. */
  growth: { mode: 'growing' } | { mode: 'held' } | { mode: 'failing'; message: string }
  /** Why the cluster lets no claim ask for more: a quota, a class that cannot expand. */
  refusal: string | undefined
  /** The cluster as a client sees it, with that admission. */
  admitting(cluster: Cluster): Cluster
  /** Takes the next step of a claim's growth, if there is one. */
  step(claim: PersistentVolumeClaim, isMounted: boolean): Promise<void>
}

const storageOf = (quantity: string | undefined): number => quantityToBytes(quantity ?? '0')
/** The class that the cluster puts into a claim that says none. */
export const defaultClass = 'standard'
const pending = 'FileSystemResizePending'

export function createFakeVolumes(own: Cluster): FakeVolumes {
  const write = async (claim: PersistentVolumeClaim, status: PersistentVolumeClaim['status']) => {
    await own.replaceStatus('PersistentVolumeClaim', { ...claim, status: { ...claim.status, ...status } })
  }
  const condition = (type: string, message: string) => ({ type, status: 'True', message })

  const told = new Set<string>()
  const tell = async ({ metadata: { namespace = '', name, uid = '' } }: PersistentVolumeClaim, message: string) => {
    if (told.has(uid)) return
    told.add(uid)
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
      if (why !== undefined) await tell(claim, why)
      return why !== undefined
    },
    growth: { mode: 'growing' },
    refusal: undefined,
    admitting: inner => ({
      ...inner,
      create: (kind, draft) => {
        if (kind !== 'PersistentVolumeClaim') return inner.create(kind, draft)
        const asked = draft as Draft<'PersistentVolumeClaim'> // of that kind
        const admitted = { ...asked, spec: { storageClassName: defaultClass, ...asked.spec } }
        return inner.create(kind, admitted as typeof draft)
      },
      replace: async (kind, object) => {
        if (kind !== 'PersistentVolumeClaim' || volumes.refusal === undefined) return inner.replace(kind, object)
        const asked = object as PersistentVolumeClaim // of that kind
        const before = await inner.get('PersistentVolumeClaim', asked.metadata)
        const requests = (claim: PersistentVolumeClaim | undefined) => claim?.spec?.resources?.requests?.storage
        if (storageOf(requests(asked)) > storageOf(requests(before)))
          throw new ClusterError(
            'Forbidden',
            `persistentvolumeclaims "${asked.metadata.name}" is forbidden: ${volumes.refusal}`,
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
