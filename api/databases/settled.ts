/** What a write of a database is answered with once its request has waited as it prefers to. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Kinds } from '../../cluster/index.ts'
import { waitUntilSettled } from '../answers.ts'
import { findOwned } from '../caches.ts'
import type { ApiContext } from '../context.ts'
import type { Account } from '../tenants.ts'

type Waiting = {
  context: ApiContext
  request: FastifyRequest
  reply: FastifyReply
  account: Pick<Account, 'namespace' | 'tenant'>
}

/** Undefined: it is gone. */
export async function settledDatabase(
  { context, request, reply, account }: Waiting,
  id: string,
): Promise<Kinds['ManagedDatabase'] | undefined> {
  const { cluster, caches } = context
  const found = await findOwned(cluster, caches.ManagedDatabase, 'ManagedDatabase', account.namespace, id)
  return found && waitUntilSettled(context, request, reply, found)
}

/** Without `connection`: what a write answers is kept for whoever repeats it. */
export async function settledText(waiting: Waiting, id: string): Promise<string | undefined> {
  const database = await settledDatabase(waiting, id)
  return database && waiting.context.databaseText(database, waiting.account.tenant)
}
