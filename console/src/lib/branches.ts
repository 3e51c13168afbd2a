/** Builds the names that the console shows for branches. Pure. */
type Named = { id: string; name: string; display_name?: string | null }

export const titleOf = ({ display_name: label, name }: Named): string => label || name

/**
 * Returns a function that returns the short id of a branch, or undefined if the title of the branch is unique in
 * `branches`. The short id is the end of the id, as in generated names.
 */
export function marksOf(branches: readonly Named[]): (branch: Named) => string | undefined {
  const byTitle = Map.groupBy(branches, titleOf)
  return branch => ((byTitle.get(titleOf(branch))?.length ?? 0) > 1 ? branch.id.slice(-8) : undefined)
}

export const withMark = (title: string, mark: string | undefined): string =>
  mark === undefined ? title : `${title} (${mark})`

/** Returns a function that returns the title of a branch, followed by the short id if the title is not unique. */
export function namesOf(branches: readonly Named[]): (branch: Named) => string {
  const markOf = marksOf(branches)
  return branch => withMark(titleOf(branch), markOf(branch))
}
