/**
 * Translates a container's command, arguments and environment for this machine. It expands $(NAME) references, as the
 * kubelet does. It replaces mount paths with directories, since there are no mount namespaces.
 */

const reference = /\$\$|\$\(([^()$\s]+)\)/g

/**
 * Expands `$(NAME)`. `$$` becomes `$`, so `$$(NAME)` becomes the literal `$(NAME)`. A reference to an unknown name
 * stays unchanged (Kubernetes API, Container.command).
 */
export function expandReferences(text: string, values: ReadonlyMap<string, string>): string {
  return text.replace(reference, (match, name: string | undefined) =>
    name === undefined ? '$' : (values.get(name) ?? match),
  )
}

/** The path on this machine for a path in the container. */
export type PathMapping = { mountPath: string; directory: string }

const escapePattern = (text: string): string => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')
const withoutTrailingSlash = (path: string): string => (path.length > 1 ? path.replace(/\/+$/, '') : path)

/**
 * Returns a function that replaces each mount path, as a complete path or as the beginning of a path, with its
 * directory. The longest mount path has precedence. Replaced text is not searched again. A path begins at the start of
 * the text, or after white space, a quote, or one of `= : , ; (`.
 */
export function pathTranslator(mappings: PathMapping[]): (text: string) => string {
  const directories = new Map(mappings.map(({ mountPath, directory }) => [withoutTrailingSlash(mountPath), directory]))
  if (directories.size === 0) return text => text
  const alternatives = [...directories.keys()].sort((a, b) => b.length - a.length).map(escapePattern)
  const pattern = new RegExp(`(^|[\\s"'=:,;(])(${alternatives.join('|')})(?=$|[/\\s"':,;)])`, 'g')
  return text => text.replace(pattern, (_, before: string, path: string) => `${before}${directories.get(path) ?? path}`)
}
