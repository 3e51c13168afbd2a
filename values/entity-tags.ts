/** Entity tags (RFC 9110, section 8.8.3) in `If-Match` and `If-None-Match`: parsing and comparison. */

/** `*`, or tags in header format, each with its quotes. A weak tag has its W/ prefix. */
export type EntityTags = '*' | readonly string[]

/** The pattern of a list, for the API's description. Empty items between commas are also accepted. */
export const entityTagsPattern = /^([*]|(W[/])?"[!#-~]*"(, *(W[/])?"[!#-~]*")*)$/

/**
 * A space in a tag violates the RFC, but functions set such tags, and clients send them back. The pattern matches a
 * space between tags in only one way. With two ways, a header full of spaces would cause a hundred million attempts.
 */
const listItem = /[ \t]*(?:((?:W\/)?"[\x20\x21\x23-\x7e\x80-\xff]*")[ \t]*)?(?:,|$)/y

/** Undefined if it is not a list of entity tags. */
export function readEntityTags(value: string): EntityTags | undefined {
  if (value.trim() === '*') return '*'
  const tags: string[] = []
  listItem.lastIndex = 0
  while (listItem.lastIndex < value.length) {
    const found = listItem.exec(value)
    if (found === null) return undefined
    if (found[1] !== undefined) tags.push(found[1])
  }
  return tags.length === 0 ? undefined : tags
}

/** Strong comparison: a weak tag matches nothing. */
export const namesStrongly = (tags: EntityTags, tag: string): boolean =>
  tags === '*' || (!tag.startsWith('W/') && tags.includes(tag))

const opaque = (tag: string): string => tag.replace(/^W\//, '')

/** Weak comparison: weak and strong tags can be equal. */
export const namesWeakly = (tags: EntityTags, tag: string): boolean =>
  tags === '*' || tags.some(one => opaque(one) === opaque(tag))
