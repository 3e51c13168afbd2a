/** The reference page of a chart's values, from the comments of its values.yaml. */
import { isMap, isNode, isScalar, type Pair, parseDocument, type YAMLMap } from 'yaml'
import { cell, heading, table } from './markdown.ts'

type Value = { path: string; initial: string; description: string }

/** Only the last paragraph: what is above it is about the file, or about several values. */
const commentOf = (text: string | null | undefined): string =>
  (text ?? '')
    .split(/\n\s*\n/)
    .slice(-1)
    .join('')
    .split('\n')
    .map(line => line.trim())
    .join(' ')
    .trim()

function valuesOf(map: YAMLMap, prefix: string, first: string): Value[] {
  return map.items.flatMap((pair: Pair, index): Value[] => {
    const { key, value } = pair
    if (!isScalar(key)) return []
    const path = prefix === '' ? String(key.value) : `${prefix}.${String(key.value)}`
    // The comment before the first key of a map is attached to the map.
    const above = commentOf(key.commentBefore) || (index === 0 ? first : '')
    const description = [above, commentOf(isScalar(value) ? value.comment : undefined)].filter(part => part !== '')
    if (isMap(value) && !value.flow && value.items.length > 0)
      return [
        ...(description.length === 0 ? [] : [{ path, initial: '', description: description.join(' ') }]),
        ...valuesOf(value, path, commentOf(value.commentBefore)),
      ]
    const initial = JSON.stringify(isNode(value) ? value.toJSON() : null)
    return [{ path, initial, description: description.join(' ') }]
  })
}

/** `text`: values.yaml. */
export function chartValuesPage(charts: readonly { name: string; text: string }[]): string {
  const sections = charts.flatMap(({ name, text }) => {
    const { contents } = parseDocument(text)
    if (!isMap(contents)) throw new Error(`${name}: values.yaml is not a map`)
    const rows = valuesOf(contents, '', '').map(({ path, initial, description }) => [
      `\`${path}\``,
      initial === '' ? '' : `\`${initial}\``,
      cell(description),
    ])
    return [heading(2, `Chart ${name}`), table(['value', 'default', 'description'], rows)]
  })
  return [heading(1, 'Chart values'), 'What `helm install --set` and `--values` can change.', ...sections].join('\n\n')
}
