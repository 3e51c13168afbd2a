/**
 * Texts and statements with placeholders, and the insertion of values. A value replaces exactly its placeholder, and
 * never becomes part of a statement's text. Pure.
 */
import { randomBytes } from 'node:crypto'
import type { Rendered, Statement } from '../sql/index.ts'
import type { Value } from '../sql/statement.ts'

/** The placeholder is random and secret, so that no client can send it. */
const secret = `v${randomBytes(16).toString('hex')}n`
const placeholders = new RegExp(`${secret}([0-9]+)e`)

/** The placeholder has only letters and digits, so encoding does not change it. */
export const placeholder = (index: number): string => `${secret}${index}e`

export type Fill<T> = (values: readonly Value[]) => T

/** A text with values. `encode` writes each value. */
export function textTemplate(text: string, encode: (value: string) => string): (values: readonly string[]) => string {
  // With a capturing group, split alternates between the texts and the groups.
  const parts = text.split(placeholders)
  if (parts.length === 1) return () => text
  return values => parts.map((part, index) => (index % 2 === 0 ? part : encode(values[Number(part)] ?? ''))).join('')
}

/** @returns undefined if a placeholder is part of a larger value */
function statementTemplate({ text, values }: Statement, found: Set<number>): Fill<Statement> | undefined {
  if (text.includes(secret)) return undefined
  const indexes: (number | undefined)[] = []
  for (const value of values) {
    if (typeof value !== 'string' || !value.includes(secret)) {
      indexes.push(undefined)
      continue
    }
    const index = Number(placeholders.exec(value)?.[1])
    if (value !== placeholder(index)) return undefined
    found.add(index)
    indexes.push(index)
  }
  if (indexes.every(index => index === undefined)) return () => ({ text, values })
  return inserted => ({
    text,
    values: values.map((value, at) => {
      const index = indexes[at]
      return index === undefined ? value : (inserted[index] ?? '')
    }),
  })
}

/** @returns undefined if a value's placeholder is missing, or part of a larger value */
export function renderedTemplate(rendered: Rendered, count: number): Fill<Rendered> | undefined {
  const found = new Set<number>()
  const main = statementTemplate(rendered.main, found)
  const write = rendered.write && statementTemplate(rendered.write, found)
  const estimate = rendered.estimate && statementTemplate(rendered.estimate, found)
  const isComplete = (rendered.write === undefined) === (write === undefined) && found.size === count
  if (main === undefined || !isComplete || (rendered.estimate === undefined) !== (estimate === undefined))
    return undefined
  if (count === 0) return () => rendered
  return values => ({ ...rendered, main: main(values), write: write?.(values), estimate: estimate?.(values) })
}
