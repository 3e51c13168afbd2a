/** The message of backups, restores and regions on a cluster without the kind VolumeSnapshot. */
export const snapshotsNotServed =
  'the cluster does not support volume snapshots (snapshot.storage.k8s.io/v1): install the snapshot controller and its CRDs'
