/** Prints a configuration in the form of its file, every key with its value, secrets masked. What is printed can be loaded again. */
// @ts-nocheck

import { type Catalogue, fieldsOf, type Key } from './catalogue.ts'
import { MASK } from './connection-text.ts'
import { keyOf } from './sources.ts'
import { type Scalar, writeBinding } from './syntax.ts'

type Value = Scalar | readonly string[] | Uint8Array | undefined

/**
 * In the order of the catalogue, what has no fixed name at the end; a key that is not set is printed as the empty text that unsets it.
 * Masked: secrets, the passwords of URIs, and every value without a fixed name, since what is in it only its users know.
 */
export function describeSettings<C extends Catalogue>(
  catalogue: C,
  values: { readonly [F in keyof C]?: Value },
  open: { readonly prefix: string; readonly names: readonly string[] } = { prefix: '', names: [] },
): string {
  const lines = fieldsOf(catalogue).map(field => {
    const key = keyOf(catalogue, field)
    return writeBinding(key.name, printed(key, values[field]))
  })
  const openLines = open.names.map(name => writeBinding(`${open.prefix}${name}`, MASK))
  return `${[...lines, ...openLines].join('\n')}\n`
}

function printed({ isSecret, mask, type }: Key, value: Value): Scalar {
  if (value === undefined) return ''
  if (isSecret || value instanceof Uint8Array) return MASK
  if (mask !== undefined) return mask(String(value))
  if (type === 'mode') return Number(value).toString(8)
  return typeof value === 'object' ? value.join(', ') : value
}
