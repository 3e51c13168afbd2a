/** The first load is the entry of the build with its static imports and styles. A browser loads it before any page. */
type Chunk = { file: string; imports?: string[]; css?: string[]; isEntry?: boolean }
export type Manifest = Readonly<Record<string, Chunk>>

/** Maximum size of the first load in bytes, compressed with gzip. */
export const firstLoadLimit = 250 * 1024

/** Returns the files of the first load, sorted and without duplicates. */
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
