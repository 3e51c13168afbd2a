/** What a browser loads first: the entry of the build with everything that it imports statically, and styles. */
type Chunk = { file: string; imports?: string[]; css?: string[]; isEntry?: boolean }
export type Manifest = Readonly<Record<string, Chunk>>

/** The most that a browser loads before the first page, compressed. */
export const firstLoadLimit = 250 * 1024

/** Files of the first load, each once. */
export function firstLoad(manifest: Manifest): string[] {
  const seen = new Set<string>()
  const files = new Set<string>()
  const add = (name: string): void => {
    const chunk = manifest[name]
    if (chunk === undefined || seen.has(name)) return
    seen.add(name)
    for (const file of [chunk.file, ...(chunk.css ?? [])]) files.add(file)
    for (const imported of chunk.imports ?? []) add(imported)
  }
  for (const [name, { isEntry }] of Object.entries(manifest)) if (isEntry === true) add(name)
  return [...files].sort()
}
