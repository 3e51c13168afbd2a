/**
 * Whether a member archives, and where. A member archives only if its owner has the durable tier and the installation
 * has an archive. Pure.
 */
import type { Instance } from '../../objects/instance.ts'
import type { PodSettings } from '../../pod-settings.ts'

export type Archive = NonNullable<PodSettings['archive']>

/** The archive of a member; undefined if it does not archive. */
export const archiveOf = (
  { spec }: Pick<Instance, 'spec'>,
  { archive }: Pick<PodSettings, 'archive'>,
): Archive | undefined => (spec.backup?.durable === true ? archive : undefined)

/**
 * The directory with the marker files of archived WAL. The directory is a volume of the pod, so no copy of the data
 * contains marker files.
 */
export const markersDirectory = '/var/lib/espalier/archived'

/**
 * The environment variable of Postgres that names this directory. A pod from before the durable tier was enabled does
 * not have the variable.
 */
export const markersVariable = 'ESPALIER_ARCHIVED'

/** How long the command waits for a marker file before it fails and Postgres retries, in tenths of a second. */
const waitTenths = 50

/**
 * Succeeds when the agent has archived the file. Starts one process per 0.1 s of waiting, and none if the marker file
 * exists. Without the variable, the pod has no archiving agent, and the command succeeds at once.
 */
export const archiveCommand =
  `d=$${markersVariable}; test -n "$d" || exit 0; n=0; ` +
  `until test -e "$d/%f"; do n=$((n+1)); test $n -le ${waitTenths} || exit 1; sleep 0.1; done`
