/** The node service of CSI: mounts a volume's file system at kubelet's path, and unmounts it. */
import { stat, statfs } from 'node:fs/promises'
import type { z } from 'zod'
import { devicesOf, mountAt } from '../server/mounts.ts'
import { topologyKey } from './controller.ts'
import { CsiError } from './errors.ts'
import { bind, growMounted, mountedElsewhere, mountImage, unmount } from './mounts.ts'
import type { Pool, Volume } from './pool.ts'
import { requireCapability, required, requiredPath, type schemas } from './requests.ts'
import type { Serial } from './serial.ts'

type Request<K extends keyof typeof schemas> = z.output<(typeof schemas)[K]>

const capabilities = ['STAGE_UNSTAGE_VOLUME', 'GET_VOLUME_STATS', 'EXPAND_VOLUME', 'SINGLE_NODE_MULTI_WRITER']

/** The possible number of loop devices on a node, less some for other uses. */
const mostVolumes = 250

export function createNode({ pool, node, serial }: { pool: Pool; node: string; serial: Serial }) {
  async function known(id: string): Promise<Volume> {
    const volume = await pool.findVolume(required(id, 'volume_id'))
    if (volume === undefined) throw new CsiError('NOT_FOUND', `there is no volume ${id} on node ${node}`)
    return volume
  }
  async function requireMounted(path: string): Promise<void> {
    if (path.startsWith('/') && (await stat(path).catch(() => undefined))) return
    throw new CsiError('NOT_FOUND', `no volume is mounted at ${path}`)
  }

  return {
    NodeGetCapabilities: async () => ({ capabilities: capabilities.map(type => ({ rpc: { type } })) }),

    NodeGetInfo: async () => ({
      node_id: node,
      max_volumes_per_node: mostVolumes,
      accessible_topology: { segments: { [topologyKey]: node } },
    }),

    NodeStageVolume: async (request: Request<'stage'>) => {
      required(request.volume_id, 'volume_id')
      const path = requiredPath(request.staging_target_path, 'staging_target_path')
      requireCapability(request.volume_capability)
      // Looked up when this call runs, because the volume may be deleted before that.
      await serial(request.volume_id, async () => mountImage(pool.imageOf(await known(request.volume_id)), path))
      return {}
    },

    NodeUnstageVolume: async ({ volume_id, staging_target_path }: Request<'unstage'>) => {
      required(volume_id, 'volume_id')
      const path = requiredPath(staging_target_path, 'staging_target_path')
      await serial(volume_id, () => unmount(path))
      return {}
    },

    NodePublishVolume: async (request: Request<'publish'>) => {
      required(request.volume_id, 'volume_id')
      const target = requiredPath(request.target_path, 'target_path')
      const { access_mode } = requireCapability(request.volume_capability)
      const staging = requiredPath(request.staging_target_path, 'staging_target_path')
      const volume = await known(request.volume_id)
      await serial(volume.id, async () => {
        const staged = await mountAt(staging)
        if (staged === undefined || !(await devicesOf(pool.imageOf(volume))).includes(staged.device)) {
          throw new CsiError('FAILED_PRECONDITION', `volume ${volume.id} is not staged at ${staging}`)
        }
        const isExclusive = access_mode?.mode === 'SINGLE_NODE_SINGLE_WRITER'
        const elsewhere = isExclusive ? await mountedElsewhere(staged.device, [staging, target]) : undefined
        if (elsewhere !== undefined) {
          throw new CsiError('FAILED_PRECONDITION', `volume ${volume.id} has one writer, at ${elsewhere}`)
        }
        await bind(staged, target, request.readonly)
      })
      return {}
    },

    NodeUnpublishVolume: async ({ volume_id, target_path }: Request<'unpublish'>) => {
      required(volume_id, 'volume_id')
      const target = requiredPath(target_path, 'target_path')
      await serial(volume_id, () => unmount(target))
      return {}
    },

    NodeGetVolumeStats: async ({ volume_id, volume_path }: Request<'stats'>) => {
      const path = required(volume_path, 'volume_path')
      await known(volume_id)
      await requireMounted(path)
      const { bsize, blocks, bfree, bavail, files, ffree } = await statfs(path)
      return {
        usage: [
          { unit: 'BYTES', total: blocks * bsize, available: bavail * bsize, used: (blocks - bfree) * bsize },
          { unit: 'INODES', total: files, available: ffree, used: files - ffree },
        ],
      }
    },

    NodeExpandVolume: async ({ volume_id, volume_path }: Request<'nodeExpand'>) => {
      const volume = await known(volume_id)
      const path = required(volume_path, 'volume_path')
      await requireMounted(path)
      await serial(volume.id, () => growMounted(path))
      return { capacity_bytes: volume.bytes }
    },
  }
}
