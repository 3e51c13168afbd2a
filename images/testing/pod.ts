/** A pod's volumes and variables as a kubelet sets them up, in directories of the test. */
import { chmodSync, chownSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ConfigMap, Secret, StatefulSet } from '../../cluster/index.ts'
import { quantityToBytes, quantityToNumber } from '../../values/quantity.ts'
import type { ContainerRequest, Mount } from './container.ts'

type PodSpec = NonNullable<NonNullable<StatefulSet['spec']>['template']['spec']>
type Volume = NonNullable<PodSpec['volumes']>[number]

export type PodState = {
  spec: PodSpec
  podIP: string
  /** The directory of its volumes. */
  directory: string
  configMap: Pick<ConfigMap, 'data'>
  secret: Pick<Secret, 'data'>
}

/** Files of a ConfigMap or Secret are behind two links, so that all of them change at once. */
function files(directory: string, group: number, mode: number, data: Record<string, string | Buffer>): void {
  const version = '..2026_01_01_00_00_00.1'
  mkdirSync(join(directory, version))
  symlinkSync(version, join(directory, '..data'))
  for (const [name, content] of Object.entries(data)) {
    const path = join(directory, version, name)
    writeFileSync(path, content)
    chownSync(path, 0, group)
    chmodSync(path, mode)
    symlinkSync(join('..data', name), join(directory, name))
  }
}

/**
 * The directory of a volume, with owners and modes as a kubelet sets them for an fsGroup: root owns everything, the
 * group can read Secrets whatever their mode, and write to other volumes.
 */
function directoryOf(podState: PodState, volume: Volume): string {
  const group = podState.spec.securityContext?.fsGroup ?? 0
  const directory = join(podState.directory, volume.name)
  if (mkdirSync(directory, { recursive: true }) === undefined) return directory
  chownSync(directory, 0, group)
  chmodSync(directory, 0o2775)
  if (volume.configMap) files(directory, group, 0o644 | 0o440, podState.configMap.data ?? {})
  if (volume.secret) {
    const data = Object.entries(podState.secret.data ?? {}).map(([name, text]) => [name, Buffer.from(text, 'base64')])
    files(directory, group, (volume.secret.defaultMode ?? 0o644) | 0o440, Object.fromEntries(data))
  }
  // An ext4 volume is never empty.
  if (volume.persistentVolumeClaim) mkdirSync(join(directory, 'lost+found'), { mode: 0o700 })
  return directory
}

function mountOf(
  podState: PodState,
  { name, mountPath, readOnly = false }: { name: string; mountPath: string; readOnly?: boolean },
): Mount {
  const volume = podState.spec.volumes?.find(candidate => candidate.name === name)
  if (volume === undefined) throw new Error(`no volume ${name}`)
  const { sizeLimit = '', medium } = volume.emptyDir ?? {}
  const inMemory = medium === 'Memory'
  return {
    path: mountPath,
    readOnly,
    ...(inMemory ? { memory: quantityToBytes(sizeLimit) } : { directory: directoryOf(podState, volume) }),
  }
}

/** How to run one of the pod's containers. */
export function containerOf(podState: PodState, name: string): Omit<ContainerRequest, 'image' | 'root' | 'work'> {
  const { spec, podIP } = podState
  const container = [...(spec.initContainers ?? []), ...spec.containers].find(candidate => candidate.name === name)
  if (container === undefined) throw new Error(`no container ${name}`)
  const { runAsUser = 0, runAsGroup = 0, fsGroup = 0 } = spec.securityContext ?? {}
  const limits = container.resources?.limits ?? {}
  const textOf = (variable: NonNullable<typeof container.env>[number]): string =>
    variable.valueFrom?.fieldRef?.fieldPath === 'status.podIP' ? podIP : (variable.value ?? '')
  const environment = Object.fromEntries((container.env ?? []).map(variable => [variable.name, textOf(variable)]))
  const expanded = (text: string): string => text.replaceAll(/\$\((\w+)\)/g, (all, key) => environment[key] ?? all)
  return {
    user: { uid: runAsUser, gid: runAsGroup, groups: [fsGroup] },
    command: container.command?.map(expanded),
    args: container.args?.map(expanded),
    environment,
    limits: { memory: quantityToBytes(limits.memory ?? ''), cpu: quantityToNumber(limits.cpu ?? '') },
    mounts: (container.volumeMounts ?? []).map(mount => mountOf(podState, mount)),
  }
}
