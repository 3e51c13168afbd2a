/** What branches are called. Pure. */
type Named = { id: string; name: string; display_name?: string | null }

export const titleOf = ({ display_name: label, name }: Named): string => label || name

/** The short id of a branch whose title another branch of the list has too: the end of the id, as in generated names. */
export function marksOf(branches: readonly Named[]): (branch: Named) => string | undefined {
  const byTitle = Map.groupBy(branches, titleOf)
  return branch => ((byTitle.get(titleOf(branch))?.length ?? 0) > 1 ? branch.id.slice(-8) : undefined)
}

export const withMark = (title: string, mark: string | undefined): string =>
  mark === undefined ? title : `${title} (${mark})`

/** The title of each branch of the list, with the short id where the title alone is not unique. */
export function namesOf(branches: readonly Named[]): (branch: Named) => string {
  const markOf = marksOf(branches)
  return branch => withMark(titleOf(branch), markOf(branch))
}
