/**
 * The answer to a list of databases. Small pages that were asked for last are kept, as long as nothing changed that they
 * are made of: a page that is polled costs a look-up.
 */
// @ts-nocheck

import { LRUCache } from 'lru-cache'
import type { Kinds } from '../../cluster/index.ts'
import type { ApiContext } from '../context.ts'
import { createdWithin, createSortedView, filtered, pageHeaders, pageOf } from '../pages.ts'
import type { Account } from '../tenants.ts'
import type { ListDatabasesQuery } from './schema.ts'

type ManagedDatabase = Kinds['ManagedDatabase']

type PageAnswer = { text: string; headers: Record<string, string> }
type AnswerPage = (account: Account, query: ListDatabasesQuery, url: string) => PageAnswer

const pagesKept = 64
/** Objects on a page that is kept at most: with the number of pages it bounds memory to a few MB. */
const keptUpTo = 100

type Kept = {
  answer: PageAnswer
  databases: readonly ManagedDatabase[]
  tenant: Kinds['Tenant'] | undefined
  epoch: number
}

export function createPageAnswers({ caches, databaseText, surroundingsEpoch }: ApiContext): AnswerPage {
  const view = createSortedView(caches.ManagedDatabase)
  const kept = new LRUCache<string, Kept>({ max: pagesKept })

  function make(databases: readonly ManagedDatabase[], { tenant }: Account, query: ListDatabasesQuery, url: string) {
    const { region } = query
    const inRegion = region === undefined ? undefined : (database: ManagedDatabase) => database.spec.region === region
    const { items, total } = pageOf(filtered(databases, [inRegion, createdWithin(query)]), query)
    const text = `[${items.map(database => databaseText(database, tenant)).join(',')}]`
    return { text, headers: pageHeaders(url, query, total) }
  }

  return (account, query, url) => {
    const { namespace, tenant } = account
    const databases = view(namespace)
    const epoch = surroundingsEpoch()
    const key = `${namespace} ${url}`
    const before = kept.get(key)
    // The view is another array after any change to the tenant's databases.
    if (before?.databases === databases && before.tenant === tenant && before.epoch === epoch) return before.answer
    const answer = make(databases, account, query, url)
    if (query.limit <= keptUpTo) kept.set(key, { answer, databases, tenant, epoch })
    return answer
  }
}
