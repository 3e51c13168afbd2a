/** Responses to writes of a database, after the wait that the Prefer header requests. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Kinds } from '../../cluster/index.ts'
import { waitUntilStable } from '../answers.ts'
import { findOwned } from '../caches.ts'
import type { ApiContext } from '../context.ts'
import type { Account } from '../tenants.ts'

type Waiting = {
  context: ApiContext
  request: FastifyRequest
  reply: FastifyReply
  account: Pick<Account, 'namespace' | 'tenant'>
}

/** undefined: the database is deleted. */
export async function databaseAfterWait(
  { context, request, reply, account }: Waiting,
  id: string,
): Promise<Kinds['ManagedDatabase'] | undefined> {
  const { cluster, caches } = context
  const found = await findOwned(cluster, caches.ManagedDatabase, 'ManagedDatabase', account.namespace, id)
  return found && waitUntilStable(context, request, reply, found)
}

/** Omits `connection`, because the response of a write is stored for repeated requests. */
export async function databaseTextAfterWait(waiting: Waiting, id: string): Promise<string | undefined> {
  const database = await databaseAfterWait(waiting, id)
  return database && waiting.context.databaseText(database, waiting.account.tenant)
}
