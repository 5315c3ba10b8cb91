"""Trains small models of scikit-learn, XGBoost and LightGBM for test_convert.py.

usage: train.py FOLDER
"""

import pathlib
import pickle
import sys
import types

import joblib
import lightgbm
import numpy as np
import xgboost
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

folder = pathlib.Path(sys.argv[1])
iris = load_iris()
x, classes = iris.data.astype(np.float32), iris.target
names, two, values = iris.target_names[classes], (classes > 0).astype(int), x @ [1, 2, 3, 4] + 0.5

def keep(name, model, y=classes):
    joblib.dump(model.fit(x, y), folder / name)

keep("logistic.joblib", LogisticRegression(max_iter=500))
keep("forest.pkl", RandomForestClassifier(10, random_state=0), names)
keep("pipeline.joblib", make_pipeline(StandardScaler(), PCA(3), LogisticRegression()))
keep("svc.joblib", SVC())
keep("mlp.joblib", MLPClassifier((8,), max_iter=300, random_state=0))
keep("boosting.joblib", GradientBoostingClassifier(n_estimators=5, random_state=0))
keep("knn.joblib", KNeighborsClassifier(3))
keep("bayes.joblib", GaussianNB())
keep("tree.joblib", DecisionTreeClassifier(random_state=0))
keep("ridge.joblib", Ridge(), values)
keep("pca.joblib", PCA(2))
keep("scaler.joblib", StandardScaler())
keep("kmeans.joblib", KMeans(3, n_init=1, random_state=0))
keep("gaussian.joblib", GaussianProcessRegressor(), values)
keep("xgb_classes.joblib", xgboost.XGBClassifier(n_estimators=5))
keep("xgb_values.joblib", xgboost.XGBRegressor(n_estimators=5), values)
keep("lgb_classes.joblib", lightgbm.LGBMClassifier(n_estimators=5, verbose=-1))
keep("lgb_values.joblib", lightgbm.LGBMRegressor(n_estimators=5, verbose=-1), values)

for name, objective, y in [("xgb_binary.json", "binary:logistic", two), ("xgb_multi.ubj", "multi:softprob", classes),
                           ("xgb_values.json", "reg:squarederror", values), ("mlflow.xgb", "binary:logistic", two)]:
    more = {"num_class": 3} if "multi" in objective else {}
    xgboost.train({"objective": objective, **more}, xgboost.DMatrix(x, y), 5).save_model(folder / name)
for name, objective, y in [("lgb_binary.txt", "binary", two), ("lgb_multi.txt", "multiclass", classes),
                           ("lgb_values.txt", "regression", values), ("mlflow.lgb", "binary", two)]:
    more = {"num_class": 3} if "multi" in objective else {}
    lightgbm.train({"objective": objective, "verbose": -1, **more}, lightgbm.Dataset(x, y), 5).save_model(folder / name)

# What cannot be converted.
gone = types.ModuleType("gone")
gone.Model = type("Model", (), {"__module__": "gone"})
sys.modules["gone"] = gone
(folder / "foreign.pkl").write_bytes(pickle.dumps(gone.Model()))
(folder / "weights.pkl").write_bytes(pickle.dumps({"layer.weight": np.ones(3)}))
(folder / "number.pkl").write_bytes(pickle.dumps(7))

keep("spreading.joblib", LabelSpreading())
(folder / "broken.json").write_text("{}")
(folder / "broken.txt").write_text("tree\n")
for name in ("model.pt", "model.h5"):
    (folder / name).write_bytes(b"")
np.save(folder / "wide.npy", np.zeros((2, 5)))
