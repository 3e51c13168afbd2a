/** Validates the requests of the CSI specification once, with the errors that it requires. */
import { z } from 'zod'
import { CsiError } from './errors.ts'

const longest = 4096
const text = z.string().max(longest).default('')
/** Zero values have a default, because gRPC omits them. */
const bytes = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER).default(0)

const capability = z.object({
  block: z.object({}).nullish(),
  mount: z.object({ fs_type: text, mount_flags: z.array(text).default([]) }).nullish(),
  access_mode: z.object({ mode: z.string().default('UNKNOWN_MODE') }).nullish(),
})
type Capability = z.output<typeof capability>
const capabilities = z.array(capability).max(100).default([])
const range = z.object({ required_bytes: bytes, limit_bytes: bytes }).nullish()
const topology = z.object({ segments: z.record(z.string(), z.string()).default({}) })

export const schemas = {
  none: z.object({}),
  createVolume: z.object({
    name: text,
    capacity_range: range,
    volume_capabilities: capabilities,
    volume_content_source: z
      .object({
        snapshot: z.object({ snapshot_id: text }).nullish(),
        volume: z.object({ volume_id: text }).nullish(),
      })
      .nullish(),
    accessibility_requirements: z.object({ requisite: z.array(topology).default([]) }).nullish(),
  }),
  volume: z.object({ volume_id: text }),
  validate: z.object({ volume_id: text, volume_capabilities: capabilities }),
  list: z.object({ max_entries: z.number().int().default(0), starting_token: text }),
  capacity: z.object({ volume_capabilities: capabilities, accessible_topology: topology.nullish() }),
  createSnapshot: z.object({ source_volume_id: text, name: text }),
  snapshot: z.object({ snapshot_id: text }),
  listSnapshots: z.object({
    max_entries: z.number().int().default(0),
    starting_token: text,
    source_volume_id: text,
    snapshot_id: text,
  }),
  controllerExpand: z.object({ volume_id: text, capacity_range: range }),
  stage: z.object({ volume_id: text, staging_target_path: text, volume_capability: capability.nullish() }),
  unstage: z.object({ volume_id: text, staging_target_path: text }),
  publish: z.object({
    volume_id: text,
    staging_target_path: text,
    target_path: text,
    volume_capability: capability.nullish(),
    readonly: z.boolean().default(false),
  }),
  unpublish: z.object({ volume_id: text, target_path: text }),
  stats: z.object({ volume_id: text, volume_path: text }),
  nodeExpand: z.object({ volume_id: text, volume_path: text, capacity_range: range }),
}

/** @throws CsiError `INVALID_ARGUMENT` that names the field */
export function required(value: string, field: string): string {
  if (value === '') throw new CsiError('INVALID_ARGUMENT', `${field} is required`)
  return value
}

/** An absolute path without `..`. kubelet sends no other paths. */
export function requiredPath(value: string, field: string): string {
  const path = required(value, field)
  if (!path.startsWith('/') || path.split('/').includes('..') || path.includes('\0')) {
    throw new CsiError('INVALID_ARGUMENT', `${field} must be an absolute path without ..`)
  }
  return path
}

const modes = new Set([
  'SINGLE_NODE_WRITER',
  'SINGLE_NODE_READER_ONLY',
  'SINGLE_NODE_SINGLE_WRITER',
  'SINGLE_NODE_MULTI_WRITER',
])

/** Returns why a volume cannot be used in this way; undefined if it can. */
export function objectionTo({ block, mount, access_mode }: Capability): string | undefined {
  if (block) return 'block volumes are not supported, only file systems'
  if (!mount) return 'volume_capability must define how the volume is used'
  if (!['', 'xfs'].includes(mount.fs_type)) return `fs_type must be xfs, not ${mount.fs_type}`
  if (mount.mount_flags.length > 0) return 'mount flags are not supported'
  const mode = access_mode?.mode ?? 'UNKNOWN_MODE'
  return modes.has(mode) ? undefined : `access mode ${mode} is not supported: a volume can be used on only one node`
}

/** @throws CsiError `INVALID_ARGUMENT` */
export function requireCapability(value: Capability | null | undefined): Capability {
  if (!value) throw new CsiError('INVALID_ARGUMENT', 'volume_capability is required')
  const objection = objectionTo(value)
  if (objection !== undefined) throw new CsiError('INVALID_ARGUMENT', objection)
  return value
}
