/** Which names were probably meant: those that hold the word or are held by it, then those with the fewest letters to change. */
import { editDistance } from '../../configuration/edit-distance.ts'
import { fenced } from '../../retrieval/fence.ts'

const longestName = 100

/** Whether two neighbouring letters have changed places. */
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
    const holds = wanted.length > 2 && (other.includes(wanted) || (other.length > 2 && wanted.includes(other)))
    const distance = holds || isSwapped(wanted, other) ? 1 : editDistance(wanted, other)
    if (distance <= Math.max(1, wanted.length / 3)) near.push({ name, distance })
  }
  return near
    .sort((one, other) => one.distance - other.distance || (one.name < other.name ? -1 : 1))
    .slice(0, most)
    .map(({ name }) => name)
}

/** The end of a sentence about a name that is not there. Whoever may create a table chooses its name: what stands in it is data. */
export function suggestion(word: string, candidates: Iterable<string>): string {
  const names = nearestNames(word, candidates)
  return names.length === 0 ? '' : ` Did you mean one of these?\n${fencedNames(names)}`
}

export const fencedNames = (names: readonly string[]): string => fenced(names.map(escaped).join('\n'))

/** On one line. */
const escaped = (name: string): string => name.replace(/[\p{Cc}\p{Zl}\p{Zp}]/gu, ' ')
