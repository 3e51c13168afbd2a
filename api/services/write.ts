/** Decides the services of a database or branch, with the state of the cluster and the installation. */
import type { Kinds } from '../../cluster/index.ts'
import type { PgVersion } from '../../crds/index.ts'
import { idOf } from '../caches.ts'
import type { ApiContext } from '../context.ts'
import type { CredentialsOwner } from '../databases/credentials.ts'
import type { Writer } from '../writer.ts'
import { type DecidedServices, decideServices, type ServiceContext, servicesOfBranch } from './decide.ts'
import { checkFilters } from './filters.ts'
import { newSecretName, newServiceId } from './keys.ts'
import type { ServiceInput } from './schema.ts'

async function withPgvector({ pgVersions, hasPgvector }: ApiContext): Promise<PgVersion[]> {
  const found = await Promise.all(pgVersions.map(async version => ((await hasPgvector(version)) ? [version] : [])))
  return found.flat()
}

type Owner = { id: string; pgVersion: PgVersion; members?: readonly string[] }

async function serviceContextOf(context: ApiContext, owner: Owner): Promise<ServiceContext> {
  return {
    isOffered: context.runsServices,
    pgVersion: owner.pgVersion,
    pgvectorVersions: await withPgvector(context),
    members: owner.members ?? [],
    newServiceId,
    newSecretName: newSecretName(owner.id),
  }
}

/** @throws ApiError 400 */
export async function newServices(
  { context }: Writer,
  owner: Owner,
  inputs: readonly ServiceInput[],
): Promise<DecidedServices> {
  if (inputs.length === 0) return { services: [], secrets: [] }
  const decided = decideServices(inputs, [], await serviceContextOf(context, owner))
  await checkFilters(inputs)
  return decided
}

/** The members of a database and their hosts. */
const membersOf = ({ status }: Kinds['ManagedDatabase']): string[] => [
  ...new Set((status?.instances ?? []).flatMap(({ id, node }) => (node === undefined ? [id] : [id, node]))),
]

/** @throws ApiError 400, 503 */
export async function updatedServices(
  { context }: Writer,
  database: Kinds['ManagedDatabase'],
  inputs: readonly ServiceInput[],
): Promise<DecidedServices> {
  const owner = { id: idOf(database) ?? '', pgVersion: database.spec.pgVersion, members: membersOf(database) }
  const [known, serviceContext] = await Promise.all([
    context.serviceSecrets.known(database),
    serviceContextOf(context, owner),
  ])
  const decided = decideServices(inputs, known, serviceContext)
  await checkFilters(inputs)
  return decided
}

/** @throws ApiError 503 */
export async function branchServices(
  { context }: Writer,
  source: CredentialsOwner,
  branchId: string,
): Promise<DecidedServices> {
  if (source.spec.services.length === 0) return { services: [], secrets: [] }
  const known = await context.serviceSecrets.known(source)
  return servicesOfBranch(known, { newServiceId, newSecretName: newSecretName(branchId) })
}
