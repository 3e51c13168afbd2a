/** The requests of a seed. */
import type { Parameter } from './query.ts'
import { Random } from './random.ts'
import { type Asked, anyRequest } from './request.ts'
import { relations } from './resources.ts'
import { askable } from './unasked.ts'
import { value } from './values.ts'

const plainly = (
  method: string,
  path: string,
  query: readonly Parameter[],
  all: Asked['headers'] = {},
  sent?: object,
): Asked => ({
  method,
  path,
  query,
  headers: sent === undefined ? all : { ...all, 'Content-Type': 'application/json' },
  body: sent && JSON.stringify(sent),
})

/** What chance alone would hardly make, and a rule is about. */
function rare(random: Random): Asked {
  const [name, relation] = random.pick(Object.entries(relations))
  const path = `/${encodeURIComponent(name)}`
  const [column] = random.pick(relation.columns)
  const id = 20 + random.below(20)
  return random.pick<() => Asked>([
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

/** One request of a seed, and those that 12.0.2 cannot be asked, or not as they are. Each follows from its number alone, so that any one can be had again. */
export function requestOf(seed: number, number: number): { readonly asked: Asked; readonly unasked: readonly Asked[] } {
  const random = new Random(Math.imul(seed + 1, 2_654_435_761) ^ Math.imul(number + 1, 40_503))
  const unasked: Asked[] = []
  for (;;) {
    const one = random.percent(2) ? rare(random) : anyRequest(random)
    const asked = askable(one)
    if (JSON.stringify(asked) !== JSON.stringify(one)) unasked.push(one)
    if (asked !== undefined) return { asked, unasked }
  }
}
