#!/usr/bin/env bash
# Accuracy of both presets with every backbone whose weights are at hand, by the plain commands.
# bench/acceptance.sh DATA OUT     DATA holds mvtec_ad/ and kolektor_sdd/; EDGESEG_WEIGHTS is set.
set -euo pipefail
data=$1 out=$2
mkdir -p "$out"

measure() { # name, folder, then options of fit
  local name=$1 folder=$2 fold=()
  shift 2
  for word in "$@"; do [[ $word == --fold=* ]] && fold=("$word"); done
  [ -f "$out/$name.json" ] && return
  edgeseg fit "$folder" --out "$out/$name.edgeseg" --no-moments --quiet "$@"
  edgeseg eval "$out/$name.edgeseg" "$folder" --json "$out/$name.json" --quiet --store "${fold[@]}" >/dev/null
  rm -f "$out/$name.tmp"
  echo "$name $(python3 -c "
import json; r = json.load(open('$out/$name.json'))
print(*(f'{k} {r[k]:.4f}' for k in ('pro', 'pro_05', 'pixel_auroc', 'image_auroc', 'f1', 'recall', 'false_alarm_rate')))")"
}

for category in bottle cable grid screw; do
  measure "paper-resnet18-$category" "$data/mvtec_ad/$category" --preset paper --backbone resnet18
  for backbone in resnet18 mobilenet_v3_small efficientnet_lite0 efficientnet_lite1; do
    measure "edge-$backbone-$category" "$data/mvtec_ad/$category" --backbone "$backbone"
  done
done
for fold in 0 1 2; do
  for preset in paper edge; do
    measure "$preset-resnet18-kolektor-$fold" "$data/kolektor_sdd" --preset $preset --backbone resnet18 --size 704x256 --fold=$fold
  done
done
