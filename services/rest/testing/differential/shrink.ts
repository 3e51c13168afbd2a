/** A failing request made shorter, and shown so that it can be sent by hand. */
import type { Parameter } from './query.ts'
import { type Asked, pathOf } from './request.ts'

const without = <T>(list: readonly T[], index: number): T[] => list.filter((_, at) => at !== index)

/** The text without one of the parts that commas or nesting separate. */
function* shorterTexts(text: string): Generator<string> {
  const cuts = [0, ...[...text.matchAll(/[,().]/g)].map(({ index }) => index), text.length]
  for (let from = 0; from < cuts.length; from++) {
    for (let to = cuts.length - 1; to > from; to--) {
      const [start = 0, end = 0] = [cuts[from], cuts[to]]
      for (const [a, b] of [
        [start, end],
        [start, end + 1],
        [start + 1, end],
      ] as const) {
        const shorter = text.slice(0, a) + text.slice(b)
        if (shorter.length < text.length && shorter !== '') yield shorter
      }
    }
  }
}

function* shorterBodies(body: string): Generator<string> {
  try {
    const value: unknown = JSON.parse(body)
    if (Array.isArray(value)) for (const index of value.keys()) yield JSON.stringify(without(value, index))
    else if (typeof value === 'object' && value !== null)
      for (const index of Object.keys(value).keys())
        yield JSON.stringify(Object.fromEntries(without(Object.entries(value), index)))
  } catch {
    const lines = body.split('\n')
    for (const index of lines.keys()) yield without(lines, index).join('\n')
  }
}

/** Requests that say a little less. */
export function* shorter(asked: Asked): Generator<Asked> {
  const { query, headers, body } = asked
  for (const index of query.keys()) yield { ...asked, query: without(query, index) }
  for (const name of Object.keys(headers))
    yield { ...asked, headers: Object.fromEntries(Object.entries(headers).filter(([known]) => known !== name)) }
  for (const [index, [name, text]] of query.entries()) {
    for (const cut of shorterTexts(text)) yield { ...asked, query: query.with(index, [name, cut] satisfies Parameter) }
  }
  for (const [name, text] of Object.entries(headers)) {
    const parts = text.split(',')
    if (parts.length > 1)
      for (const index of parts.keys())
        yield { ...asked, headers: { ...headers, [name]: without(parts, index).join(',').trim() } }
  }
  if (body !== undefined) for (const cut of shorterBodies(body)) yield { ...asked, body: cut }
}

const most = 300

/** The shortest found that still fails; each that is tried is sent. */
export async function shrink(asked: Asked, fails: (asked: Asked) => Promise<boolean>): Promise<Asked> {
  let found = asked
  let tried = 0
  for (let again = true; again && tried < most; ) {
    again = false
    for (const one of shorter(found)) {
      if (++tried > most) break
      if (!(await fails(one))) continue
      found = one
      again = true
      break
    }
  }
  return found
}

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

export function curl(asked: Asked): string {
  const { method, headers, body } = asked
  const all = Object.entries(headers).map(
    ([name, text]) => ` -H ${quoted(`${name}: ${Buffer.from(text, 'latin1').toString('utf8')}`)}`,
  )
  const how = method === 'HEAD' ? '-I' : `-X ${method}`
  return `curl -si ${how} ${quoted(`$URL${pathOf(asked)}`).replace("'$URL", `"$URL"'`)}${all.join('')}${body === undefined ? '' : ` --data-binary ${quoted(body)}`}`
}
