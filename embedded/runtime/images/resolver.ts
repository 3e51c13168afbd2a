/** What an image's name stands for on this machine. */

/** A program that runs inside the runtime's own process. */
type Hosted = {
  /** Resolves when it has ended by itself; it never rejects. */
  ended: Promise<number>
  /** Ends it; resolves when it is over. */
  stop(): Promise<void>
}
/** What a program has from its container. */
export type HostedContext = {
  log: (line: string) => void
  environment: ReadonlyMap<string, string>
  /** Whether it may write to its pod's volumes now: not while an image of one is taken. */
  mayWrite: () => boolean
}
/** Starts it with its arguments. @throws where it cannot be started */
export type HostedProgram = (args: readonly string[], context: HostedContext) => Promise<Hosted>

export type ResolvedImage = {
  /** Directories put first on PATH. */
  path: string[]
  /** Programs that are more than a file on PATH: what to run instead of the name. */
  commands: Record<string, string[]>
  env?: Record<string, string>
  /** Commands, word for word, that take no process: one for each of a hundred databases would take gigabytes. */
  hosted?: Record<string, HostedProgram>
  /** What ends it, where a container does not say; default: SIGTERM. */
  stopSignal?: NodeJS.Signals
}

/**
 * Finds an image. `volumes` are the directories of the claims that the container's pod mounts: data that was made by
 * one family of binaries is never opened by another.
 * @throws RuntimeError `ImageNotFound`, `ImageFamilyGone`
 */
export type ImageResolver = (image: string, volumes?: string[]) => Promise<ResolvedImage>
