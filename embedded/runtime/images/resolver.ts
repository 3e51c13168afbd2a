/** Resolves an image name on this machine. */

/** A program that runs inside the runtime's own process. */
type Hosted = {
  /** Resolves when the program has ended by itself. Never rejects. */
  ended: Promise<number>
  /** Stops the program. Resolves when it has ended. */
  stop(): Promise<void>
}
/** The container's values for a program. */
export type HostedContext = {
  log: (line: string) => void
  environment: ReadonlyMap<string, string>
  /** Whether the program may write to its pod's volumes now. False while a snapshot image of a volume is taken. */
  mayWrite: () => boolean
}
/** Starts a program with its arguments. @throws if the program cannot be started */
export type HostedProgram = (args: readonly string[], context: HostedContext) => Promise<Hosted>

export type ResolvedImage = {
  /** Directories at the start of PATH. */
  path: string[]
  /** Programs that are not a plain file on PATH: the command that runs instead of the name. */
  commands: Record<string, string[]>
  env?: Record<string, string>
  /**
   * Exact commands that run inside this process. One process per database would use gigabytes for a hundred databases.
   */
  hosted?: Record<string, HostedProgram>
  /** The stop signal if the container sets none. Default: SIGTERM. */
  stopSignal?: NodeJS.Signals
}

/**
 * Finds an image. `volumes` are the directories of the claims that the container's pod mounts. Binaries of one family
 * never open data that another family created.
 * @throws RuntimeError `ImageNotFound`, `ImageFamilyGone`
 */
export type ImageResolver = (image: string, volumes?: string[]) => Promise<ResolvedImage>
