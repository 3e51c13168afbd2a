/** Files of a Secret, ConfigMap or projected volume. Pure: `volumes/atomic.ts` writes them. */
import type { Pod } from '../../../cluster/index.ts'
import { RuntimeError } from '../errors.ts'
import { fieldOf, type PodSpec } from './environment.ts'
import { type ReferenceKind, type References, valuesOf } from './references.ts'

export type Volume = NonNullable<PodSpec['volumes']>[number]
type ProjectedFile = { content: Buffer; mode: number }
/** Files by their path inside the volume. */
export type ProjectedFiles = Map<string, ProjectedFile>

type Items = { key: string; path: string; mode?: number }[]
type Source = { kind: ReferenceKind; name: string | undefined; optional: boolean | undefined; items: Items | undefined }

/**
 * Only the owner can read a Secret's file, whatever mode is requested, because the machine is shared with other users.
 */
const ownerOnly = 0o700
const defaultSecretMode = 0o600
const defaultMode = 0o644

function checkedPath(path: string): string {
  const parts = path.split('/')
  if (path === '' || path.includes('\0') || parts.some(part => part === '' || part === '.' || part.startsWith('..'))) {
    throw new RuntimeError('Unsupported', `volume path "${path}" must be relative, without empty parts or ".."`)
  }
  return path
}

function addSource(
  files: ProjectedFiles,
  references: References,
  source: Source,
  volumeMode: number | undefined,
): void {
  const secret = source.kind === 'secret'
  const modeOf = (mode: number | undefined): number =>
    secret ? (mode ?? volumeMode ?? defaultSecretMode) & ownerOnly : (mode ?? volumeMode ?? defaultMode)
  const values = valuesOf(references, source.kind, source.name, source.optional)
  if (values === undefined) return
  if (source.items === undefined) {
    for (const [key, content] of values) files.set(checkedPath(key), { content, mode: modeOf(undefined) })
    return
  }
  for (const { key, path, mode } of source.items) {
    const content = values.get(key)
    if (content !== undefined) files.set(checkedPath(path), { content, mode: modeOf(mode) })
    else if (!source.optional) throw new RuntimeError('ReferenceMissing', `"${source.name}" has no key "${key}"`)
  }
}

/** Whether a volume's files are read from cluster objects. */
export const isProjected = (volume: Volume): boolean =>
  volume.secret !== undefined || volume.configMap !== undefined || volume.projected !== undefined

/** @throws RuntimeError `ReferenceMissing`, `Unsupported` */
export function filesOf(volume: Volume, pod: Pod, podIp: string, references: References): ProjectedFiles {
  const files: ProjectedFiles = new Map()
  const { secret, configMap, projected } = volume
  if (secret) {
    const source = { kind: 'secret', name: secret.secretName, optional: secret.optional, items: secret.items } as const
    addSource(files, references, source, secret.defaultMode)
  }
  if (configMap) addSource(files, references, { kind: 'configMap', ...named(configMap) }, configMap.defaultMode)
  for (const source of projected?.sources ?? []) {
    if (source.secret) addSource(files, references, { kind: 'secret', ...named(source.secret) }, projected?.defaultMode)
    else if (source.configMap) {
      addSource(files, references, { kind: 'configMap', ...named(source.configMap) }, projected?.defaultMode)
    } else if (source.downwardAPI) {
      for (const { path, fieldRef, mode } of source.downwardAPI.items ?? []) {
        const content = Buffer.from(fieldOf(pod, podIp, fieldRef?.fieldPath ?? ''))
        files.set(checkedPath(path), { content, mode: mode ?? projected?.defaultMode ?? defaultMode })
      }
    } else throw new RuntimeError('Unsupported', `volume "${volume.name}": this projected source is not supported`)
  }
  return files
}

const named = (source: { name?: string; optional?: boolean; items?: Items }) => ({
  name: source.name,
  optional: source.optional,
  items: source.items,
})
