/** Shortens a failing request, and prints it so that a developer can send it by hand. */
import type { Parameter } from './query.ts'
import { pathOf, type SentRequest } from './request.ts'

const without = <T>(list: readonly T[], index: number): T[] => list.filter((_, at) => at !== index)

/** The text without one of the parts that commas or nesting separate. */
function* shorterTexts(text: string): Generator<string> {
  const positions = [0, ...[...text.matchAll(/[,().]/g)].map(({ index }) => index), text.length]
  for (let from = 0; from < positions.length; from++) {
    for (let to = positions.length - 1; to > from; to--) {
      const [start = 0, end = 0] = [positions[from], positions[to]]
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

/** Slightly smaller requests. */
export function* shorter(sent: SentRequest): Generator<SentRequest> {
  const { query, headers, body } = sent
  for (const index of query.keys()) yield { ...sent, query: without(query, index) }
  for (const name of Object.keys(headers))
    yield { ...sent, headers: Object.fromEntries(Object.entries(headers).filter(([known]) => known !== name)) }
  for (const [index, [name, text]] of query.entries()) {
    for (const shortened of shorterTexts(text))
      yield { ...sent, query: query.with(index, [name, shortened] satisfies Parameter) }
  }
  for (const [name, text] of Object.entries(headers)) {
    const parts = text.split(',')
    if (parts.length > 1)
      for (const index of parts.keys())
        yield { ...sent, headers: { ...headers, [name]: without(parts, index).join(',').trim() } }
  }
  if (body !== undefined) for (const shortened of shorterBodies(body)) yield { ...sent, body: shortened }
}

const most = 300

/** The shortest request found that still fails. Each candidate is sent to both servers. */
export async function shrink(sent: SentRequest, fails: (sent: SentRequest) => Promise<boolean>): Promise<SentRequest> {
  let found = sent
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

export function curl(sent: SentRequest): string {
  const { method, headers, body } = sent
  const all = Object.entries(headers).map(
    ([name, text]) => ` -H ${quoted(`${name}: ${Buffer.from(text, 'latin1').toString('utf8')}`)}`,
  )
  const how = method === 'HEAD' ? '-I' : `-X ${method}`
  return `curl -si ${how} ${quoted(`$URL${pathOf(sent)}`).replace("'$URL", `"$URL"'`)}${all.join('')}${body === undefined ? '' : ` --data-binary ${quoted(body)}`}`
}
