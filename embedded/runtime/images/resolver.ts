/** Resolves an image name on this machine. */

/** A program that runs inside the runtime's own process. */
type Hosted = {
  /** Resolves when it has ended by itself; never rejects. */
  ended: Promise<number>
  /** Stops it; resolves when it has ended. */
  stop(): Promise<void>
}
/** What a program gets from its container. */
export type HostedContext = {
  log: (line: string) => void
  environment: ReadonlyMap<string, string>
  /** Whether it may write to its pod's volumes now: not while a snapshot image of one is taken. */
  mayWrite: () => boolean
}
/** Starts it with its arguments. @throws if it cannot be started */
export type HostedProgram = (args: readonly string[], context: HostedContext) => Promise<Hosted>

export type ResolvedImage = {
  /** Directories put first on PATH. */
  path: string[]
  /** Programs that are not a plain file on PATH: the command to run instead of the name. */
  commands: Record<string, string[]>
  env?: Record<string, string>
  /**
   * Exact commands that run without a process: one process per database would use gigabytes for a hundred databases.
   */
  hosted?: Record<string, HostedProgram>
  /** The default stop signal, if the container sets none; default: SIGTERM. */
  stopSignal?: NodeJS.Signals
}

/**
 * Finds an image. `volumes` are the directories of the claims that the container's pod mounts: data created by one
 * family of binaries is never opened by another.
 * @throws RuntimeError `ImageNotFound`, `ImageFamilyGone`
 */
export type ImageResolver = (image: string, volumes?: string[]) => Promise<ResolvedImage>
