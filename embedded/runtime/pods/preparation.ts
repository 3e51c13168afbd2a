/** Prepares a container's process: resolves its image and translates its command, paths and environment. */
import type { Pod } from '../../../cluster/index.ts'
import { RuntimeError } from '../errors.ts'
import type { ResolvedImage } from '../images/resolver.ts'
import type { Preparation } from './container.ts'
import { type Container, environmentOf } from './environment.ts'
import { expandReferences, pathTranslator } from './expansion.ts'
import { type Mounts, pathMappings } from './mounts.ts'
import { containerId, containerMarker, homeOf, type PodHost, runtimeMarker, terminationFile } from './pod-host.ts'

const defaultTerminationPath = '/dev/termination-log'

/** Returns the command, environment and working directory of a container. */
export async function prepare(
  host: PodHost,
  pod: Pod,
  container: Container,
  podIp: string,
  mounts: Mounts,
): Promise<Preparation> {
  const image = await host.images(container.image ?? '', mounts.claimDirectories)
  const uid = pod.metadata.uid ?? ''
  const home = homeOf(host.layout, uid)
  const translate = pathTranslator([
    ...pathMappings(container, mounts.directories),
    {
      mountPath: container.terminationMessagePath ?? defaultTerminationPath,
      directory: terminationFile(host.layout, uid, container),
    },
  ])
  const environment = environmentOf({
    pod,
    container,
    podIp,
    references: host.referencesIn(pod.metadata.namespace ?? ''),
    image,
    translate,
    home,
    markers: {
      [runtimeMarker]: host.runtimeId,
      [containerMarker]: containerId(host, uid, container),
    },
  })
  const [word, ...rest] = [...(container.command ?? []), ...(container.args ?? [])].map(argument =>
    expandReferences(translate(argument), environment),
  )
  if (word === undefined || container.command === undefined) {
    throw new RuntimeError(
      'Unsupported',
      `container "${container.name}" must set a command: images have no default command here`,
    )
  }
  const [program = word, ...leading] = image.commands[word] ?? [word]
  const named = container.command.join(' ')
  const hosted = image.hosted && Object.hasOwn(image.hosted, named) ? image.hosted[named] : undefined
  return {
    command: [program, ...leading, ...rest],
    ...(hosted ? { hosted: { start: hosted, args: rest.slice(container.command.length - 1) } } : {}),
    environment,
    workingDirectory: container.workingDir === undefined ? home : translate(container.workingDir),
    stopSignal: stopSignalOf(container, image),
    translate,
  }
}

/** Returns `lifecycle.stopSignal` if it is a known signal, otherwise the image's stop signal. */
function stopSignalOf(container: Container, image: ResolvedImage): NodeJS.Signals {
  const known: NodeJS.Signals[] = ['SIGTERM', 'SIGINT', 'SIGQUIT', 'SIGHUP', 'SIGUSR1', 'SIGUSR2', 'SIGKILL']
  return known.find(name => name === container.lifecycle?.stopSignal) ?? image.stopSignal ?? 'SIGTERM'
}
