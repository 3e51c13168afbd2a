/**
 * Scores how well a text matches the typed characters. Consecutive characters and beginnings of words score higher.
 * Returns undefined if the text does not contain all typed characters in their order. Pure.
 */
function score(text: string, typed: string): number | undefined {
  const [inText, wanted] = [text.toLowerCase(), typed.toLowerCase().replaceAll(' ', '')]
  if (wanted === '') return 0
  const position = inText.indexOf(typed.toLowerCase().trim())
  if (position >= 0) return 1000 - position - inText.length / 1000
  let sum = 0
  let at = -1
  for (const character of wanted) {
    const next = inText.indexOf(character, at + 1)
    if (next < 0) return undefined
    sum += next === at + 1 ? 3 : /[\s/-]/.test(inText[next - 1] ?? ' ') ? 2 : 0
    at = next
  }
  return sum - inText.length / 1000
}

/** Returns the best matches first. Matches with equal scores keep their order. */
export function best<T>(items: readonly T[], textOf: (item: T) => string, typed: string, most: number): T[] {
  return items
    .flatMap(item => {
      const points = score(textOf(item), typed)
      return points === undefined ? [] : [{ item, points }]
    })
    .sort((a, b) => b.points - a.points)
    .slice(0, most)
    .map(({ item }) => item)
}
