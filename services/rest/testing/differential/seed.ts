/** The requests of a seed. */

import { sendable } from './excluded.ts'
import type { Parameter } from './query.ts'
import { Random } from './random.ts'
import { anyRequest, type SentRequest } from './request.ts'
import { relations } from './resources.ts'
import { value } from './values.ts'

const plainly = (
  method: string,
  path: string,
  query: readonly Parameter[],
  all: SentRequest['headers'] = {},
  sent?: object,
): SentRequest => ({
  method,
  path,
  query,
  headers: sent === undefined ? all : { ...all, 'Content-Type': 'application/json' },
  body: sent && JSON.stringify(sent),
})

/** Cases that random choices rarely generate, although a rule covers them. */
function rare(random: Random): SentRequest {
  const [name, relation] = random.pick(Object.entries(relations))
  const path = `/${encodeURIComponent(name)}`
  const [column] = random.pick(relation.columns)
  const id = 20 + random.below(20)
  return random.pick<() => SentRequest>([
    () => plainly('HEAD', path, [['select', `${column}::${random.word('int date numeric json')}`]]),
    () =>
      plainly('GET', '/kinds', [['select', `${random.word('plain place page')},id.${random.word('max() count()')}`]]),
    () =>
      plainly('GET', path, [
        ['select', `${column}::int`],
        [column, `match.${random.word('[ (')}`],
      ]),
    () =>
      plainly(
        'POST',
        '/picky',
        [],
        { Prefer: 'resolution=merge-duplicates' },
        random.list(1, 2, () => ({ id: id + random.below(9), name: 'skip' })),
      ),
    () =>
      plainly('POST', '/notes', [['select', 'id,body,title']], { Prefer: 'missing=default, return=representation' }, [
        { id, title: `t${id}`, body: random.pick([{ a: [1] }, [1, null], { a: 1, b: { c: [] } }]) },
      ]),
    () => ({
      ...plainly('POST', `/rpc/${random.word('json_body jsonb_body mixed_body')}`, []),
      body: '',
      headers: { 'Content-Type': 'application/json' },
    }),
    () =>
      plainly(
        'POST',
        '/rpc/fail',
        [],
        {},
        {
          state: 'PGRST',
          message: value(random, 'raised'),
          detail: value(random, 'detail'),
        },
      ),
    () =>
      plainly('GET', random.word('/rpc/numbers /rpc/texts /rpc/moods'), random.percent(50) ? [['limit', '1']] : [], {
        Accept: 'application/vnd.pgrst.object+json',
      }),
  ])()
}

/**
 * One request of a seed. Requests that 12.0.2 does not support are rewritten or omitted. Each request depends only on
 * the seed and its number, so any request can be repeated.
 */
export function requestOf(
  seed: number,
  number: number,
): { readonly sent: SentRequest; readonly excluded: readonly SentRequest[] } {
  const random = new Random(Math.imul(seed + 1, 2_654_435_761) ^ Math.imul(number + 1, 40_503))
  const excluded: SentRequest[] = []
  for (;;) {
    const one = random.percent(2) ? rare(random) : anyRequest(random)
    const sent = sendable(one)
    if (JSON.stringify(sent) !== JSON.stringify(one)) excluded.push(one)
    if (sent !== undefined) return { sent, excluded }
  }
}
