/**
 * Texts and statements with placeholders, and what they are once the values stand there. It promises that a value gets where its placeholder was, alone, and nowhere into the text of
 * a statement. Pure.
 */
import { randomBytes } from 'node:crypto'
import type { Rendered, Statement } from '../sql/index.ts'
import type { Value } from '../sql/statement.ts'

/** Nobody outside can know it, and so cannot send it. */
const secret = `v${randomBytes(16).toString('hex')}n`
const places = new RegExp(`${secret}([0-9]+)e`)

/** Letters and digits: encoded or not, it is the same. */
export const placeholder = (index: number): string => `${secret}${index}e`

export type Fill<T> = (values: readonly Value[]) => T

/** A text in which values stand as `encode` writes them. */
export function textTemplate(text: string, encode: (value: string) => string): (values: readonly string[]) => string {
  // Of a pattern with a group, what is between the matches and the groups take turns.
  const parts = text.split(places)
  if (parts.length === 1) return () => text
  return values => parts.map((part, index) => (index % 2 === 0 ? part : encode(values[Number(part)] ?? ''))).join('')
}

/** @returns undefined where a placeholder does not stand alone */
function statementTemplate({ text, values }: Statement, found: Set<number>): Fill<Statement> | undefined {
  if (text.includes(secret)) return undefined
  const indexes: (number | undefined)[] = []
  for (const value of values) {
    if (typeof value !== 'string' || !value.includes(secret)) {
      indexes.push(undefined)
      continue
    }
    const index = Number(places.exec(value)?.[1])
    if (value !== placeholder(index)) return undefined
    found.add(index)
    indexes.push(index)
  }
  if (indexes.every(index => index === undefined)) return () => ({ text, values })
  return given => ({
    text,
    values: values.map((value, at) => {
      const index = indexes[at]
      return index === undefined ? value : (given[index] ?? '')
    }),
  })
}

/** @returns undefined where one of so many values has no place, or none of its own */
export function renderedTemplate(rendered: Rendered, count: number): Fill<Rendered> | undefined {
  const found = new Set<number>()
  const main = statementTemplate(rendered.main, found)
  const write = rendered.write && statementTemplate(rendered.write, found)
  const estimate = rendered.estimate && statementTemplate(rendered.estimate, found)
  const isWhole = (rendered.write === undefined) === (write === undefined) && found.size === count
  if (main === undefined || !isWhole || (rendered.estimate === undefined) !== (estimate === undefined)) return undefined
  if (count === 0) return () => rendered
  return values => ({ ...rendered, main: main(values), write: write?.(values), estimate: estimate?.(values) })
}
