/** What an image's name stands for on this machine. */
// @ts-nocheck


export type ResolvedImage = {
  /** Directories put first on PATH. */
  path: string[]
  /** Programs that are more than a file on PATH: what to run instead of the name. */
  commands: Record<string, string[]>
  env?: Record<string, string>
  /** What ends it, where a container does not say; default: SIGTERM. */
  stopSignal?: NodeJS.Signals
}

/**
 * Finds an image. `volumes` are the directories of the claims that the container's pod mounts: data that was made by
 * one family of binaries is never opened by another.
 * @throws RuntimeError `ImageNotFound`, `ImageFamilyGone`
 */
export type ImageResolver = (image: string, volumes?: string[]) => Promise<ResolvedImage>
