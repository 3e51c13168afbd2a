/** Restores of databases for the tests of a file: helpers to request them, and to read what they restored. */
import { annotations, apiVersion, type Restore, renderRequestedRestore, visiblePhase } from '../../crds/index.ts'
import { conditionOf } from '../objects/conditions.ts'
import { at, type useBackups } from './backups.ts'
import { isPhase, type useInstallation } from './fixture.ts'
import { editSpec, eventually } from './installation.ts'

export const reasonOf = (found: Restore | undefined) => conditionOf(found?.status, 'Ready')?.reason

export function useRestores(it: ReturnType<typeof useInstallation>, { taken, dataOf }: ReturnType<typeof useBackups>) {
  const restore = (name: string) => it.cluster().get('Restore', at(name))
  const when = (name: string, isExpected: (found: Restore) => boolean) =>
    eventually(
      () => restore(name),
      found => found !== undefined && isExpected(found),
    )
  /** Creates the Restore, like kubectl. */
  const request = async (name: string, database: string, backupName: string, databaseId?: string) =>
    it.cluster().create('Restore', {
      apiVersion,
      kind: 'Restore',
      metadata: at(name),
      spec: { databaseName: database, databaseId: databaseId ?? (await it.idOf(database)), target: { backupName } },
    })
  /** Annotates the database, like the API. */
  const requestByAnnotation = (name: string, database: string, backupName: string, discardPrevious?: true) =>
    editSpec(it.cluster(), database, spec => spec, {
      [annotations.restore]: renderRequestedRestore({ name, backupName, discardPrevious }),
    })
  const untilReconciled = (name: string, phase = 'available') =>
    it.when(
      name,
      found => isPhase(phase)(found) && visiblePhase(found) === phase && found.status?.operation === undefined,
    )

  /** Creates a database with a backup of the content `good`, and changes the content to `bad`. */
  async function createChanged(name: string, more = {}): Promise<void> {
    await it.create(name)
    ;(await dataOf(name)).content = 'good'
    await taken(`${name}-1`, name)
    ;(await dataOf(name)).content = 'bad'
    if (Object.keys(more).length > 0) await editSpec(it.cluster(), name, spec => ({ ...spec, ...more }))
  }
  /** Returns the data on the serving volume. */
  const servingOf = async (name: string) => {
    const { uid = '' } = (await it.database(name))?.status?.volume ?? {}
    return it.workload().postgres.data.get(uid)
  }
  const contentOf = async (name: string) => (await servingOf(name))?.content
  const claimDeleted = (name = '') =>
    eventually(
      () => it.cluster().get('PersistentVolumeClaim', at(name)),
      found => found === undefined,
    )

  return {
    restore,
    when,
    request,
    requestByAnnotation,
    untilReconciled,
    createChanged,
    servingOf,
    contentOf,
    claimDeleted,
  }
}
