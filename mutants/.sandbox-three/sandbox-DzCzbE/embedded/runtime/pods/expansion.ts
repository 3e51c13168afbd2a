/**
 * What changes in a container's command, arguments and environment before it runs here: $(NAME) references, as the
 * kubelet expands them, and mount paths, which stand for directories of the machine since there are no mount namespaces.
 */
// @ts-nocheck


const reference = /\$\$|\$\(([^()$\s]+)\)/g

/**
 * Expands `$(NAME)`. `$$` is one `$`, so `$$(NAME)` stays a reference in words; an unknown name is left as it is
 * (Kubernetes API, Container.command).
 */
export function expandReferences(text: string, values: ReadonlyMap<string, string>): string {
  return text.replace(reference, (whole, name: string | undefined) =>
    name === undefined ? '$' : (values.get(name) ?? whole),
  )
}

/** Where a path of the container lies on this machine. */
export type PathMapping = { mountPath: string; directory: string }

const escapePattern = (text: string): string => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')
const withoutTrailingSlash = (path: string): string => (path.length > 1 ? path.replace(/\/+$/, '') : path)

/**
 * A function that replaces each mount path, standing as a whole path or as the beginning of one, by its directory. The
 * longest mount path wins; what has been replaced is not looked at again. A path begins at the start of the text or
 * after white space, a quote, or one of `= : , ; (`.
 */
export function pathTranslator(mappings: PathMapping[]): (text: string) => string {
  const directories = new Map(mappings.map(({ mountPath, directory }) => [withoutTrailingSlash(mountPath), directory]))
  if (directories.size === 0) return text => text
  const alternatives = [...directories.keys()].sort((a, b) => b.length - a.length).map(escapePattern)
  const pattern = new RegExp(`(^|[\\s"'=:,;(])(${alternatives.join('|')})(?=$|[/\\s"':,;)])`, 'g')
  return text => text.replace(pattern, (_, before: string, path: string) => `${before}${directories.get(path) ?? path}`)
}
