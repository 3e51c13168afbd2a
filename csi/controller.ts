/** The controller service of CSI: creates, copies, grows and deletes volumes and snapshots of the pool. */
import type { z } from 'zod'
import { devicesOf } from '../server/mounts.ts'
import { CsiError } from './errors.ts'
import { pageOf } from './paging.ts'
import type { Pool, Snapshot, Source, Volume } from './pool.ts'
import { objectionTo, requireCapability, required, type schemas } from './requests.ts'
import type { Serial } from './serial.ts'

type Request<K extends keyof typeof schemas> = z.output<(typeof schemas)[K]>

/** The topology label that names a volume's node. */
export const topologyKey = 'csi.espalier.dev/node'

const capabilities = [
  'CREATE_DELETE_VOLUME',
  'LIST_VOLUMES',
  'GET_CAPACITY',
  'CREATE_DELETE_SNAPSHOT',
  'LIST_SNAPSHOTS',
  'CLONE_VOLUME',
  'EXPAND_VOLUME',
  'SINGLE_NODE_MULTI_WRITER',
]

function sourceOf({ volume_content_source: source }: Request<'createVolume'>): Source | undefined {
  if (source?.snapshot) return { kind: 'snapshot', id: source.snapshot.snapshot_id }
  if (source?.volume) return { kind: 'volume', id: source.volume.volume_id }
  if (source) throw new CsiError('INVALID_ARGUMENT', 'volume_content_source must name a snapshot or a volume')
  return undefined
}

const contentOf = ({ source }: Volume) => {
  if (source === undefined) return {}
  const named =
    source.kind === 'snapshot' ? { snapshot: { snapshot_id: source.id } } : { volume: { volume_id: source.id } }
  return { content_source: named }
}

const timeOf = (ms: number) => ({ seconds: Math.floor(ms / 1000), nanos: (ms % 1000) * 1_000_000 })

const snapshotReply = ({ id, volume, bytes, takenAt }: Snapshot) => ({
  size_bytes: bytes,
  snapshot_id: id,
  source_volume_id: volume,
  creation_time: timeOf(takenAt),
  ready_to_use: true,
})

type Parts = { pool: Pool; node: string; serial: Serial }

export const createController = (parts: Parts) => ({
  ControllerGetCapabilities: async () => ({ capabilities: capabilities.map(type => ({ rpc: { type } })) }),
  ...volumeCalls(parts),
  ...capacityCalls(parts),
  ...snapshotCalls(parts),
})

function volumeCalls({ pool, node, serial }: Parts) {
  const volumeReply = (volume: Volume) => ({
    capacity_bytes: volume.bytes,
    volume_id: volume.id,
    accessible_topology: [{ segments: { [topologyKey]: node } }],
    ...contentOf(volume),
  })

  return {
    CreateVolume: async (request: Request<'createVolume'>) => {
      const name = required(request.name, 'name')
      if (request.volume_capabilities.length === 0) {
        throw new CsiError('INVALID_ARGUMENT', 'volume_capabilities is required')
      }
      request.volume_capabilities.forEach(requireCapability)
      const requisite = request.accessibility_requirements?.requisite ?? []
      if (requisite.length > 0 && requisite.every(({ segments }) => isElsewhere(segments, node))) {
        throw new CsiError('RESOURCE_EXHAUSTED', `this driver creates volumes only on node ${node}`)
      }
      const { required_bytes = 0, limit_bytes = 0 } = request.capacity_range ?? {}
      if (limit_bytes > 0 && required_bytes > limit_bytes) {
        throw new CsiError('INVALID_ARGUMENT', 'capacity_range.required_bytes must not be above limit_bytes')
      }
      const source = sourceOf(request)
      // Volumes are created one at a time, because the pool sums up the sizes of all volumes before it promises more
      // space.
      const volume = await serial('pool', () => pool.createVolume(name, required_bytes, limit_bytes, source))
      return { volume: volumeReply(volume) }
    },

    DeleteVolume: async ({ volume_id }: Request<'volume'>) => {
      const id = required(volume_id, 'volume_id')
      await serial('pool', async () => {
        const volume = await pool.findVolume(id)
        // Also serialized with the node's calls for this volume. Those calls never wait for the pool.
        if (volume !== undefined) await serial(volume.id, () => deleteUnused(pool, volume))
      })
      return {}
    },

    ListVolumes: async ({ max_entries, starting_token }: Request<'list'>) => {
      const { items, next } = pageOf(await pool.volumes(), max_entries, starting_token)
      return { entries: items.map(volume => ({ volume: volumeReply(volume) })), next_token: next }
    },

    ControllerExpandVolume: async ({ volume_id, capacity_range }: Request<'controllerExpand'>) => {
      const id = required(volume_id, 'volume_id')
      if (!capacity_range) throw new CsiError('INVALID_ARGUMENT', 'capacity_range is required')
      const { required_bytes, limit_bytes } = capacity_range
      const bytes = await serial('pool', () => pool.expandVolume(id, required_bytes, limit_bytes))
      return { capacity_bytes: bytes, node_expansion_required: true }
    },
  }
}

/** Reports the capacity of the pool. */
function capacityCalls({ pool, node }: Pick<Parts, 'pool' | 'node'>) {
  return {
    ValidateVolumeCapabilities: async ({ volume_id, volume_capabilities }: Request<'validate'>) => {
      const id = required(volume_id, 'volume_id')
      if (volume_capabilities.length === 0) throw new CsiError('INVALID_ARGUMENT', 'volume_capabilities is required')
      if ((await pool.findVolume(id)) === undefined) throw new CsiError('NOT_FOUND', `there is no volume ${id}`)
      const objection = volume_capabilities.map(objectionTo).find(found => found !== undefined)
      return objection === undefined ? { confirmed: { volume_capabilities } } : { message: objection }
    },

    GetCapacity: async ({ accessible_topology, volume_capabilities }: Request<'capacity'>) => {
      const isUsable = volume_capabilities.every(capability => objectionTo(capability) === undefined)
      if (!isUsable || (accessible_topology && isElsewhere(accessible_topology.segments, node)))
        return { available_capacity: 0 }
      const available = await pool.available()
      return { available_capacity: available, maximum_volume_size: { value: available } }
    },
  }
}

function snapshotCalls({ pool, serial }: Pick<Parts, 'pool' | 'serial'>) {
  return {
    CreateSnapshot: async ({ name, source_volume_id }: Request<'createSnapshot'>) => {
      required(name, 'name')
      required(source_volume_id, 'source_volume_id')
      const snapshot = await serial('pool', () => pool.createSnapshot(name, source_volume_id))
      return { snapshot: snapshotReply(snapshot) }
    },

    DeleteSnapshot: async ({ snapshot_id }: Request<'snapshot'>) => {
      await serial('pool', () => pool.deleteSnapshot(required(snapshot_id, 'snapshot_id')))
      return {}
    },

    ListSnapshots: async (request: Request<'listSnapshots'>) => {
      const all = (await pool.snapshots()).filter(
        ({ id, volume }) =>
          (request.snapshot_id === '' || id === request.snapshot_id) &&
          (request.source_volume_id === '' || volume === request.source_volume_id),
      )
      const { items, next } = pageOf(all, request.max_entries, request.starting_token)
      return { entries: items.map(snapshot => ({ snapshot: snapshotReply(snapshot) })), next_token: next }
    },
  }
}

/**
 * Deletes a volume that no loop device uses. Kubernetes may request this before kubelet has unmounted the volume, for
 * example after a forced deletion of its pod.
 */
async function deleteUnused(pool: Pool, volume: Volume): Promise<void> {
  const [device] = await devicesOf(pool.imageOf(volume))
  if (device !== undefined) throw new CsiError('FAILED_PRECONDITION', `volume ${volume.id} is in use, by ${device}`)
  await pool.deleteVolume(volume.id)
}

const isElsewhere = (segments: Record<string, string>, node: string): boolean => segments[topologyKey] !== node
