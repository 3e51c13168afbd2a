/**
 * Suggests similar names: first names that contain the word or that the word contains, then names with the smallest
 * edit distance.
 */
import { editDistance } from '../../configuration/edit-distance.ts'
import { fenced } from '../../retrieval/fence.ts'

const longestName = 100

/** Whether two neighbouring letters are swapped. */
function isSwapped(one: string, other: string): boolean {
  if (one.length !== other.length) return false
  const at = [...one].findIndex((letter, index) => letter !== other[index])
  return at !== -1 && one.slice(0, at) + one.charAt(at + 1) + one.charAt(at) + one.slice(at + 2) === other
}

export function nearestNames(word: string, candidates: Iterable<string>, most = 3): readonly string[] {
  const wanted = word.toLowerCase().slice(0, longestName)
  const near: { name: string; distance: number }[] = []
  for (const name of new Set(candidates)) {
    const other = name.toLowerCase().slice(0, longestName)
    const isContained = wanted.length > 2 && (other.includes(wanted) || (other.length > 2 && wanted.includes(other)))
    const distance = isContained || isSwapped(wanted, other) ? 1 : editDistance(wanted, other)
    if (distance <= Math.max(1, wanted.length / 3)) near.push({ name, distance })
  }
  return near
    .sort((one, other) => one.distance - other.distance || (one.name < other.name ? -1 : 1))
    .slice(0, most)
    .map(({ name }) => name)
}

/**
 * The end of a message about an unknown name. Users choose the names of their tables, so the text marks names as data.
 */
export function suggestion(word: string, candidates: Iterable<string>): string {
  const names = nearestNames(word, candidates)
  return names.length === 0 ? '' : ` Did you mean one of these?\n${fencedNames(names)}`
}

export const fencedNames = (names: readonly string[]): string => fenced(names.map(escaped).join('\n'))

/** Escapes a name for one line. */
const escaped = (name: string): string => name.replace(/[\p{Cc}\p{Zl}\p{Zp}]/gu, ' ')
