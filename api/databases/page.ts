/**
 * The response to a list of databases. Caches small pages that clients requested recently, while their inputs are
 * unchanged. So a polled page costs one lookup.
 */
import { LRUCache } from 'lru-cache'
import type { Kinds } from '../../cluster/index.ts'
import type { ApiContext } from '../context.ts'
import { createdWithin, createSortedView, filtered, pageHeaders, pageOf } from '../pages.ts'
import type { Account } from '../tenants.ts'
import type { ListDatabasesQuery } from './schema.ts'

type ManagedDatabase = Kinds['ManagedDatabase']

type PageAnswer = { text: string; headers: Record<string, string> }
type AnswerPage = (account: Account, query: ListDatabasesQuery, url: string) => PageAnswer

const maximumPages = 64
/** The maximum number of objects on a cached page. Together with the number of pages, it limits memory to a few MB. */
const maximumLimit = 100

type CachedPage = {
  answer: PageAnswer
  databases: readonly ManagedDatabase[]
  tenant: Kinds['Tenant'] | undefined
  epoch: number
}

export function createPageAnswers({ caches, databaseText, relatedObjectsEpoch }: ApiContext): AnswerPage {
  const view = createSortedView(caches.ManagedDatabase)
  const cached = new LRUCache<string, CachedPage>({ max: maximumPages })

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
    const epoch = relatedObjectsEpoch()
    const key = `${namespace} ${url}`
    const before = cached.get(key)
    // Any change to the tenant's databases creates a new array.
    if (before?.databases === databases && before.tenant === tenant && before.epoch === epoch) return before.answer
    const answer = make(databases, account, query, url)
    if (query.limit <= maximumLimit) cached.set(key, { answer, databases, tenant, epoch })
    return answer
  }
}
