/**
 * The answer to a read of one database, `connection` included. The whole text is kept beside the Secret that its
 * password came from, and no longer, so that the same database read again costs a look-up.
 */
import type { Kinds, Secret } from '../../cluster/index.ts'
import type { ApiContext } from '../context.ts'
import type { UserType } from '../schemas/common.ts'
import { awaitsPassword, renderConnection } from './credentials.ts'
import { withConnection } from './render.ts'

type Tenant = Kinds['Tenant'] | undefined

export type SingleAnswer = { text: string; holdsPassword: boolean }
/** @throws ApiError 503 where the password cannot be opened */
type AnswerSingle = (
  database: Kinds['ManagedDatabase'],
  tenant: Tenant,
  userType: UserType,
) => SingleAnswer | Promise<SingleAnswer>

type Kept = { plain: string; answer: SingleAnswer }

export function createSingleAnswers({ databaseText, readCredentials, openPassword }: ApiContext): AnswerSingle {
  const kept = new WeakMap<Secret, Map<UserType, Kept>>()

  async function make(
    plain: string,
    database: Kinds['ManagedDatabase'],
    secret: Secret | undefined,
    userType: UserType,
  ) {
    const endpoint = database.status?.endpoint
    if (secret !== undefined && awaitsPassword(database, secret, userType)) return { text: plain, holdsPassword: false }
    const password = secret && (await openPassword(secret, userType))
    if (secret === undefined || endpoint === undefined || password === undefined)
      return { text: plain, holdsPassword: false }
    const text = withConnection(plain, renderConnection(endpoint, userType, password))
    const answer = { text, holdsPassword: true }
    const ofSecret = kept.get(secret) ?? new Map<UserType, Kept>()
    kept.set(secret, ofSecret.set(userType, { plain, answer }))
    return answer
  }

  return (database, tenant, userType) => {
    const plain = databaseText(database, tenant)
    if (database.status?.endpoint === undefined) return { text: plain, holdsPassword: false }
    const found = readCredentials(database)
    if (found instanceof Promise) return found.then(secret => make(plain, database, secret, userType))
    const before = kept.get(found)?.get(userType)
    // The same text object unless the database or what surrounds it has changed, its endpoint included.
    return before !== undefined && before.plain === plain ? before.answer : make(plain, database, found, userType)
  }
}
